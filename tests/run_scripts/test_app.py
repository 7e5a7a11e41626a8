"""The application as visitors see it: the script is started, a browser types, clicks and reads."""

import asyncio
import json
import os
import runpy
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from hf_labelattn.inference.app import BodyLimit, build_app, frame, launch_app

from ..browser import browser, marked, requested_addresses, wait_for  # noqa: F401  (a fixture)
from ..inference.notes import WORDS, make_predictor, words
from ..inference.test_note_view import make_view

SCRIPT = Path(__file__).parents[2] / "run_scripts" / "app.py"
NOTE = f"{words(20, 5)} <script>parent.document.title = 'run'</script> {WORDS[30]} {WORDS[31]}"
LIMIT = 2000


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(address, folder) of the script serving a tiny joint model from a folder of its own."""
    pytest.importorskip("gradio", reason="needs the extra `demo`")
    folder, port = tmp_path_factory.mktemp("app"), free_port()
    predictor = make_view().predictor
    predictor.model.save_pretrained(folder / "model")
    predictor.tokenizer.save_pretrained(folder / "model")
    home = folder / "home"
    (home / "temporary").mkdir(parents=True)
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home / "temporary"), "OMP_NUM_THREADS": "1"}
    environment |= {"PYTHONPATH": str(SCRIPT.parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["--port", str(port), "--max_characters", str(LIMIT), "--examples", "2", "--use_cpu", "True"]
    command = [sys.executable, str(SCRIPT), str(folder / "model"), *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
    try:
        yield wait_until_served(f"http://127.0.0.1:{port}", process, folder / "log"), folder
    finally:
        process.terminate()
        process.wait(20)


def wait_until_served(address: str, process: subprocess.Popen, log: Path) -> str:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return address
        except urllib.error.URLError:
            time.sleep(0.2)
    raise AssertionError(log.read_text())


@pytest.fixture
def page(browser, served):  # noqa: F811
    browser.get(served[0])
    wait_for(browser, lambda page: page.find_elements("css selector", "#note textarea"))
    yield browser
    browser.switch_to.default_content()


def fill(page, field: str, text: str) -> None:
    page.find_element("css selector", f"#{field} textarea, #{field} input").send_keys(text)


def press(page, button: str) -> None:
    page.find_element("id", button).click()


def codes_in_view(page, expected: list[str]) -> list:
    """Go into the frame as soon as it lists these codes; gives their buttons."""

    def found(page):
        page.switch_to.default_content()
        frames = page.find_elements("css selector", "#view iframe")
        if not frames:
            return None
        page.switch_to.frame(frames[0])
        buttons = page.find_elements("css selector", "nav button")
        return buttons if [button.get_attribute("data-label") for button in buttons] == expected else None

    return wait_for(page, found)


def test_a_visitor_sees_the_evidence_of_a_code(page, served):
    requested_addresses(page)
    fill(page, "note", NOTE)
    press(page, "code")
    (code,) = codes_in_view(page, ["a"])
    assert marked(page) == []
    code.click()
    assert WORDS[3] in marked(page)
    assert "<script>" in page.find_element("id", "note").text
    page.switch_to.default_content()
    assert page.title == "Code a note"  # the note's own script did not run
    addresses = requested_addresses(page)
    assert addresses and all(a.startswith((served[0], "about:", "data:", "blob:")) for a in addresses)


def test_a_label_of_ones_own_is_scored(page):
    fill(page, "note", NOTE)
    fill(page, "label-name", "mine")
    fill(page, "label-description", f"{WORDS[30]} {WORDS[31]}")
    press(page, "add-label")
    codes_in_view(page, ["mine", "a"])[0].click()
    assert marked(page) == [f"{WORDS[30]} {WORDS[31]}"]
    page.switch_to.default_content()
    assert "mine" in page.find_element("id", "labels").text
    press(page, "remove-labels")
    codes_in_view(page, ["a"])


def test_what_is_wrong_is_told(page):
    fill(page, "label-name", "a")
    fill(page, "label-description", "fever")
    press(page, "add-label")
    wait_for(page, lambda page: "The model has a label a already" in page.find_element("tag name", "body").text)


def test_examples_of_the_embedded_corpus_can_be_tried(page):
    named = [button for button in page.find_elements("tag name", "button") if button.text.startswith("Example")]
    assert [button.text for button in named] == ["Example 1", "Example 2"]
    named[0].click()
    note = page.find_element("css selector", "#note textarea")
    wait_for(page, lambda _: "Admission" in (note.get_attribute("value") or ""))


def test_nothing_is_kept_on_disk(page, served):
    fill(page, "note", f"{NOTE} zebra")
    press(page, "code")
    codes_in_view(page, ["a"])
    kept = [path for path in served[1].rglob("*") if path.is_file() and "model" not in path.parts]
    assert not [path for path in kept if b"zebra" in path.read_bytes()]
    assert not [path for path in kept if (served[1] / "home" / "temporary") in path.parents]


def status_of(address: str, body: bytes) -> int:
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_large_requests_and_files_are_refused(served):
    address = served[0]
    assert status_of(f"{address}/gradio_api/queue/join", b"x" * (8 * LIMIT + 2**16 + 1)) == 413
    assert status_of(f"{address}/gradio_api/upload", b"x") == 403
    with urllib.request.urlopen(f"{address}/gradio_api/info", timeout=20) as answer:
        assert json.load(answer) == {"named_endpoints": {}, "unnamed_endpoints": {}}


def test_a_model_without_a_matcher_says_why_there_is_no_field():
    pytest.importorskip("gradio", reason="needs the extra `demo`")
    app = build_app(make_predictor("plant"), max_characters=100)
    address = launch_app(app, port=free_port())  # offline, as every test
    try:
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}config", timeout=20) as answer:
            texts = json.dumps(json.load(answer))
    finally:
        app.close()
    assert "scores only the 5 labels it was" in texts and "label-name" not in texts
    assert "googleapis" not in texts


def test_a_body_without_a_length_is_limited_too():
    answers, passed = [], []

    async def behind(scope, receive, send):
        passed.append([await receive(), await receive()])

    async def ask(*bodies: bytes) -> None:
        messages = [{"type": "http.request", "body": body, "more_body": True} for body in bodies]
        messages[-1]["more_body"] = False
        messages.append({"type": "http.disconnect"})

        async def receive():
            return messages.pop(0)

        async def send(message):
            answers.append(message)

        await BodyLimit(behind, 10)({"type": "http", "path": "/queue/join"}, receive, send)

    asyncio.run(ask(b"12345", b"12345"))
    assert [message["body"] for message in passed[0]] == [b"12345", b"12345"] and not answers
    asyncio.run(ask(b"12345", b"12345", b"6"))
    assert len(passed) == 1 and answers[0]["status"] == 413


def test_a_page_cannot_break_out_of_its_frame():
    assert frame('"><script>').count("<") == 2 and 'sandbox="allow-scripts"' in frame("")


def test_a_missing_model_is_said(monkeypatch, capsys):
    monkeypatch.delenv("CODING_MODEL", raising=False)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == 2 and "There is no model to serve" in capsys.readouterr().err
