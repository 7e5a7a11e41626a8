"""The page: only its own script runs, nothing asks the network, and every span lands in its mark."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from hf_labelattn.inference import html
from hf_labelattn.inference.evidence import Evidence
from hf_labelattn.inference.prediction import Prediction

NOTE = "Fever & cough.\n<script>document.title = 'run'</script>\nHome \"today\" <b>now</b>\r\n\x00\ud800"
PREDICTIONS = [Prediction("R50.9", 0.91), Prediction("<img src=x>", 0.5), Prediction("Z00", 0.1)]


def span(text: str, weight: float) -> Evidence:
    start = NOTE.index(text)
    return Evidence(start, start + len(text), text, weight)


EVIDENCE = {
    "R50.9": [span("Fever & cough", 0.7), span("today", 0.1)],
    "<img src=x>": [span("cough.\n<script>", 0.4)],
}


class Reader(HTMLParser):
    """Text, tags and marks of a page as a browser would see them."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.open, self.texts, self.marks = [], [], {}, []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "mark":
            self.marks.append([dict(attributes)["data-codes"], ""])
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag] = self.texts.get(tag, "") + data
        if "mark" in self.open:
            self.marks[-1][1] += data


def page(**changes) -> str:
    values = {"text": NOTE, "predictions": PREDICTIONS, "evidence": EVIDENCE, "title": "A <note>"}
    return html.render_page(**{**values, "descriptions": {"R50.9": "Fever, <unspecified>"}, **changes})


def test_the_note_is_shown_as_written():
    read = Reader(page())
    assert read.texts["p"].endswith(NOTE[:-4] + " \n\ufffd?")
    assert read.texts["h1"] == read.texts["title"] == "A <note>"
    assert "R50.9" in read.texts["nav"] and "<img src=x>" in read.texts["nav"]
    assert "Fever, <unspecified>" in read.texts["nav"] and "0.91" in read.texts["nav"]
    assert {tag for tag, _ in read.tags} <= set(
        "html head meta title style body header h1 p nav button b span main mark script".split()
    )
    assert [tag for tag, _ in read.tags].count("script") == 1


def test_nothing_is_asked_of_the_network():
    text = page()
    attributes = {name for _, row in Reader(text).tags for name in row}
    assert not attributes & {"src", "href", "action", "srcset", "data", "onclick", "onload"}
    assert "default-src 'none'" in text and not re.search(r"url\(|@import|https?:|fetch\(|import\(", text)


def test_marks_say_which_codes_they_are_for():
    marks = Reader(page()).marks
    assert marks[:3] == [["0:0.7", "Fever & "], ["0:0.7 1:0.4", "cough"], ["1:0.4", ".\n<script>"]]
    assert marks[3] == ["0:0.1", "today"] and len(marks) == 4


def test_a_code_without_evidence_says_so_and_no_codes_make_a_page():
    assert "no evidence found" in page()
    assert "No code reached the threshold" in page(predictions=[], evidence={})


def test_a_page_of_many_codes_stays_small():
    predictions = [Prediction(f"code {i}", 0.5) for i in range(1000)]
    text = "word " * 20000
    evidence = {p.label: [Evidence(5 * i, 5 * i + 4, "word", 0.1)] for i, p in enumerate(predictions)}
    assert len(html.render_page(text, predictions, evidence)) < len(text) + 400 * len(predictions)


def test_the_file_appears_when_it_is_complete(tmp_path, monkeypatch):
    path = html.write_page(tmp_path / "new" / "note.html", NOTE, PREDICTIONS, EVIDENCE)
    first = path.read_text(encoding="utf-8")
    monkeypatch.setattr(html.os, "replace", lambda *names: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        html.write_page(path, "other", PREDICTIONS, {})
    assert path.read_text(encoding="utf-8") == first
    assert [p.name for p in path.parent.iterdir()] == ["note.html"]


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium browser")
def test_in_a_browser_the_chosen_codes_evidence_is_marked(tmp_path):
    path = html.write_page(tmp_path / "note.html", NOTE, PREDICTIONS, EVIDENCE)
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    flags += f" --disable-component-update --user-data-dir={tmp_path / 'profile'} --dump-dom"
    command = [CHROMIUM, *flags.split(), f"{path.as_uri()}#R50.9"]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    read = Reader(dom)
    on = [row["data-codes"] for tag, row in read.tags if tag == "mark" and "on" in row.get("class", "")]
    assert on == ["0:0.7", "0:0.7 1:0.4", "0:0.1"]
    assert [row["aria-pressed"] for tag, row in read.tags if tag == "button"] == ["true", "false", "false"]
    assert read.texts["title"] == "Coded note"  # the note's own script did not run
    assert "R50.9: “Fever & cough”, “today”" in read.texts["header"]
