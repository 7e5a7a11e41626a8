"""A Hub on loopback: as much of its protocol as the real client needs to create, push, list and load models."""

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Repository:
    """A model repository with one branch."""

    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    commits: int = 0

    @property
    def sha(self) -> str:
        return hashlib.sha1(f"commit {self.commits}".encode()).hexdigest()


class HubServer(ThreadingHTTPServer):
    """Runs while it is used as a context manager; `repositories` is what it holds."""

    daemon_threads = True

    def __init__(self, token: str = "hf_loopback"):
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.token = token
        self.repositories: dict[str, Repository] = {}
        self.large_files: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        self.server_close()


class HubHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: HubServer

    def log_message(self, *args):
        """Stay quiet."""

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/[^/]+)?", path):
            self.with_repository(found[1], self.send_info)
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/[^/]+(/.*)?", path):
            self.with_repository(found[1], self.send_tree, (found[2] or "").strip("/"))
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            self.with_repository(found[1], self.send_file, found[2])
        else:
            self.send_error_code(404, "EntryNotFound")

    do_HEAD = do_GET

    def do_POST(self):
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if path == "/api/validate-yaml":
            self.send_json({"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            self.create(json.loads(body))
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/.+", path):
            self.with_repository(found[1], self.send_upload_modes, json.loads(body))
        elif found := re.fullmatch(r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            self.with_repository(found[1], self.send_upload_places, json.loads(body))
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/.+", path):
            self.with_repository(found[1], self.commit, [json.loads(line) for line in body.splitlines()])
        else:
            self.send_error_code(404, "EntryNotFound")

    def do_PUT(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        oid = self.path.rpartition("/")[2]
        right = hashlib.sha256(content).hexdigest() == oid
        if right:
            self.server.large_files[oid] = content
        self.send_json({}, 200 if right else 400)

    def with_repository(self, repo_id: str, answer, *arguments):
        """Answer about a repository that exists and that the caller may see."""
        repository = self.server.repositories.get(repo_id)
        allowed = self.headers.get("Authorization") == f"Bearer {self.server.token}"
        if repository is None or (repository.private and not allowed) or (self.command == "POST" and not allowed):
            self.send_error_code(401 if not allowed else 404, "RepoNotFound")
        else:
            answer(repo_id, repository, *arguments)

    def create(self, request: dict):
        repo_id = f"{request['organization']}/{request['name']}"
        exists = repo_id in self.server.repositories
        if not exists:
            private = request.get("private", False) or request.get("visibility") == "private"
            self.server.repositories[repo_id] = Repository(private)
        self.send_json({"url": f"{self.server.url}/{repo_id}", "name": repo_id}, 409 if exists else 200)

    def send_info(self, repo_id: str, repository: Repository):
        files = [{"rfilename": name} for name in repository.files]
        info = {"id": repo_id, "modelId": repo_id, "sha": repository.sha, "private": repository.private}
        self.send_json({**info, "siblings": files, "tags": [], "downloads": 0, "likes": 0})

    def send_tree(self, repo_id: str, repository: Repository, folder: str):
        if folder:
            return self.send_error_code(404, "EntryNotFound")
        rows = [
            {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            for name, content in repository.files.items()
        ]
        return self.send_json(rows)

    def send_file(self, repo_id: str, repository: Repository, name: str):
        if name not in repository.files:
            return self.send_error_code(404, "EntryNotFound")
        content = repository.files[name]
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        return self.send(200, content, {"ETag": etag, "X-Repo-Commit": repository.sha})

    def send_upload_modes(self, repo_id: str, repository: Repository, request: dict):
        modes = [
            {"path": f["path"], "uploadMode": "lfs" if f["path"].endswith(".safetensors") else "regular"}
            for f in request["files"]
        ]
        self.send_json({"files": [{**mode, "shouldIgnore": False} for mode in modes]})

    def send_upload_places(self, repo_id: str, repository: Repository, request: dict):
        objects = [
            {**o, "actions": {"upload": {"href": f"{self.server.url}/large/{o['oid']}"}}} for o in request["objects"]
        ]
        self.send_json({"transfer": "basic", "objects": objects})

    def commit(self, repo_id: str, repository: Repository, lines: list[dict]):
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repository.files[value["path"]] = self.server.large_files[value["oid"]]
        repository.commits += 1
        url = f"{self.server.url}/{repo_id}/commit/{repository.sha}"
        self.send_json({"success": True, "commitOid": repository.sha, "commitUrl": url})

    def send_error_code(self, status: int, code: str):
        self.send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

    def send_json(self, value, status: int = 200):
        self.send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send(self, status: int, content: bytes, headers: dict[str, str]):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
