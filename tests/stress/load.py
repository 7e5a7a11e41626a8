"""Fifty visitors at once for a minute: no error, memory that stays, and how long they wait; then fifty threads."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .forked import SCRIPTS, compute
from .tally import Tally

VISITORS, SECONDS, WARM = 50, 60.0, 15.0
MAX_GROWTH_MB = 100.0


class Refused(Exception):
    """The application answered, with an error that it means the visitor to see."""


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Serve a tiny model with app.py, visit it, then ask the pipeline from as many threads."""
    compute(lambda: save_model(folder / "model"), folder / "model.log")
    log = folder / "app.log"
    with application(folder / "model", log, folder) as (port, process):
        visit(tally, port, process.pid)
    if errors := [line for line in log.read_text().splitlines() if "Error" in line or "Traceback" in line]:
        tally.fail("the application's log", errors[0])
    words = compute(lambda: ask_pipeline(), folder / "pipeline.log")
    tally.inputs += int(words.split()[0])
    tally.notes.append(f"pipeline, {words.strip()}")


@contextmanager
def application(model: Path, log: Path, folder: Path, max_characters: int = 4000) -> Iterator[tuple]:
    """(port, process) of app.py while it serves a model."""
    port = free_port()
    words = [model, "--port", port, "--examples", 0, "--use_cpu", "True", "--max_characters", max_characters]
    with open(log, "w") as out:
        command = [sys.executable, *map(str, (SCRIPTS / "app.py", *words))]
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        wait_until_served(port, process, log)
        yield port, process
    finally:
        process.terminate()
        process.wait(30)


def save_model(folder: Path) -> None:
    from ..inference.notes import make_predictor

    predictor = make_predictor("plant")
    predictor.model.config.threshold = 0.0
    predictor.model.save_pretrained(folder)
    predictor.tokenizer.save_pretrained(folder)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_until_served(port: int, process: subprocess.Popen, log: Path, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-1000:]
        try:
            get(port, "/config")
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"not served after {seconds:.0f} s")


def get(port: int, path: str) -> dict:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def button(port: int) -> dict:
    """What the button that codes a note calls."""
    config = get(port, "/config")
    (found,) = [c["id"] for c in config["components"] if c["props"].get("elem_id") == "code"]
    return next(d for d in config["dependencies"] if [found, "click"] in [list(t) for t in d["targets"]])


def visit(tally: Tally, port: int, process: int) -> None:
    """All visitors at once; each sends its next note when it has seen the page of the last."""
    call = button(port)
    seen: list[float] = []
    wrong: list[str] = []
    end = time.monotonic() + SECONDS
    visitors = [
        threading.Thread(target=one_visitor, args=(port, call, number, end, seen, wrong)) for number in range(VISITORS)
    ]
    for visitor in visitors:
        visitor.start()
    time.sleep(WARM)
    warm, peak = resident_mb(process), 0.0
    while any(visitor.is_alive() for visitor in visitors):
        peak = max(peak, resident_mb(process))
        tally.inputs = len(seen)
        tally.progress()
        time.sleep(0.5)
    tally.inputs = len(seen)
    for error in wrong[:3]:
        tally.fail(f"{len(wrong)} of {len(seen) + len(wrong)} requests", error)
    if not seen:
        tally.fail("load", "no request was answered")
    if peak - warm > MAX_GROWTH_MB:
        tally.fail("memory", f"grew from {warm:.0f} to {peak:.0f} MB")
    tally.notes.append(describe(seen, warm, peak))


def describe(seen: list[float], warm: float, peak: float) -> str:
    """Percentiles of the waiting times."""
    ordered = sorted(seen) or [0.0]
    p50, p95, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95, 0.99))
    waits = f"p50 {p50:.2f} s, p95 {p95:.2f} s, p99 {p99:.2f} s, longest {ordered[-1]:.2f} s"
    memory = f"memory {warm:.0f} MB after {WARM:.0f} s, at most {peak:.0f} MB later"
    return f"{len(seen):,} requests of {VISITORS} visitors in {SECONDS:.0f} s: {waits}; {memory}"


def one_visitor(port: int, call: dict, number: int, end: float, seen: list, wrong: list) -> None:
    """Press the button again and again."""
    from .strategies import WORDS

    count = 0
    while time.monotonic() < end:
        word = WORDS[(number + count) % len(WORDS)]
        text, started = f"{word} <b>visitor{number}n{count}</b> {word}", time.monotonic()
        try:
            page = press(port, call, f"s{number}x{count}", text)
            if f"visitor{number}n{count}&lt;" not in page.replace("&amp;", "&") or "<b>visitor" in page:
                wrong.append("a page without the visitor's own note, or with its markup")
            seen.append(time.monotonic() - started)
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")
        count += 1


def press(port: int, call: dict, session: str, text: str) -> str:
    """What the button shows for a note."""
    body = json.dumps({"data": [text, 0, None], "fn_index": call["id"], "session_hash": session})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    try:
        connection.request("POST", "/gradio_api/queue/join", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, f"{answer.status} {said[:200]}"
        connection.request("GET", f"/gradio_api/queue/data?session_hash={session}")
        for line in connection.getresponse():
            message = json.loads(line[6:]) if line.startswith(b"data: ") else {}
            if message.get("msg") == "process_completed":
                if not message["success"]:
                    raise Refused(str(message["output"])[:200])
                return message["output"]["data"][0]
    finally:
        connection.close()
    raise AssertionError("the answer ended before the page came")


def resident_mb(process: int) -> float:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


def ask_pipeline(calls: int = 4) -> None:
    """Fifty threads share one pipeline; every answer is that of the text alone."""
    from concurrent.futures import ThreadPoolExecutor

    from hf_labelattn import IcdCodingPipeline
    from hf_labelattn.data.tokenization import word_tokenizer

    from ..inference.notes import ALL, WORDS, text

    coder = IcdCodingPipeline(model=ALL["plant"](), tokenizer=word_tokenizer(WORDS), device="cpu")
    texts = [text(10 + i, i) for i in range(VISITORS)] * calls
    expected = {note: coder(note, top_k=3) for note in texts[:VISITORS]}
    started = time.monotonic()
    with ThreadPoolExecutor(VISITORS) as pool:
        found = list(pool.map(lambda note: coder(note, top_k=3), texts))
    assert found == [expected[note] for note in texts], "an answer depends on who asks at the same time"
    print(f"{len(texts)} calls of {VISITORS} threads at once: {(time.monotonic() - started) / len(texts):.3f} s each")
