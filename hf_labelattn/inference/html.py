"""A page that shows a coded note: codes on one side, the note on the other, the evidence of the chosen code marked.

The page is one file that asks the network for nothing. Text is escaped, and a content security policy lets the
browser run this module's script and no other, so that a note is only ever shown.
"""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from ..storage import write_text
from .evidence import Evidence
from .prediction import Prediction

STYLE = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
SCRIPT = files(__package__).joinpath("page.js").read_text(encoding="utf-8")
HINT = "Point at a code to see its evidence; press it to keep it shown. ↑ ↓ move, Enter keeps, Esc clears."

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src '$hash'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<header><h1>$title</h1><p id="status" role="status" data-hint="$hint">$hint</p></header>
<nav aria-label="Codes">
$codes
</nav>
<main tabindex="0" aria-label="Note"><p id="note">$note</p></main>
<script>$script</script>
</body>
</html>
""")

CODE = Template(
    '<button type="button" aria-pressed="false" data-label="$label" style="--score:$share"><b>$label</b>'
    '<span class="score">$score</span>$description<span class="count">$count</span></button>'
)


def write_page(
    path: str | os.PathLike,
    text: str,
    predictions: Sequence[Prediction],
    evidence: Mapping[str, Sequence[Evidence]],
    descriptions: Mapping[str, str] | None = None,
    title: str = "Coded note",
) -> Path:
    """Write the page of one note; the file appears under its name only when it is complete.

    Args:
        path: Where to write it.
        text: The note.
        predictions: Its codes, in the order they are listed.
        evidence: For each code its passages, as `explain` gives them.
        descriptions: Code to description, such as `config.label_descriptions`.
        title: Heading of the page.
    """
    write_text(path, render_page(text, predictions, evidence, descriptions, title))
    return Path(path)


def render_page(
    text: str,
    predictions: Sequence[Prediction],
    evidence: Mapping[str, Sequence[Evidence]],
    descriptions: Mapping[str, str] | None = None,
    title: str = "Coded note",
) -> str:
    """The page of one note as a string; see [`write_page`]."""
    spans = [evidence.get(prediction.label, ()) for prediction in predictions]
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    rows = [_code(p, found, (descriptions or {}).get(p.label)) for p, found in zip(predictions, spans, strict=True)]
    return PAGE.substitute(
        hash=f"sha256-{digest}",
        title=_shown(title),
        hint=escape(HINT),
        style=STYLE,
        script=SCRIPT,
        codes="\n".join(rows) or '<p class="count">No code reached the threshold.</p>',
        note=mark_text(text, spans),
    )


def _code(prediction: Prediction, found: Sequence[Evidence], description: str | None) -> str:
    number = f"{len(found)} passage{'' if len(found) == 1 else 's'}" if found else "no evidence found"
    return CODE.substitute(
        label=_shown(prediction.label),
        share=f"{min(1.0, max(0.0, prediction.score)):.3f}",
        score=f"{prediction.score:.2f}",
        description=f'<span class="description">{_shown(description)}</span>' if description else "",
        count=number,
    )


def mark_text(text: str, spans: Sequence[Sequence[Evidence]]) -> str:
    """The escaped text with a `<mark>` around every stretch of evidence, saying which codes it is for and how much.

    Args:
        text: The note.
        spans: The passages of each code; those of different codes may overlap.

    >>> mark_text("a < b", [[Evidence(0, 3, "a <", 0.5)], [Evidence(2, 5, "< b", 0.25)]])
    '<mark data-codes="0:0.5">a </mark><mark data-codes="0:0.5 1:0.25">&lt;</mark><mark data-codes="1:0.25"> b</mark>'
    """
    borders = sorted({0, len(text)} | {edge for found in spans for span in found for edge in (span.start, span.end)})
    place = {edge: i for i, edge in enumerate(borders)}
    owners: dict[int, list[str]] = {start: [] for start in borders}
    for code, found in enumerate(spans):
        for span in found:
            for start in borders[place[span.start] : place[span.end]]:
                owners[start].append(f"{code}:{span.weight:.4g}")
    pieces = []
    for start, end in zip(borders, borders[1:], strict=False):
        piece, codes = _shown(text[start:end]), " ".join(owners[start])
        pieces.append(f'<mark data-codes="{codes}">{piece}</mark>' if codes else piece)
    return "".join(pieces)


def _shown(text: str) -> str:
    """Escaped, with a visible sign for characters a page cannot hold."""
    kept = "".join(c if c in "\n\t" or c >= " " else " " if c == "\r" else "\ufffd" for c in text)
    return escape(kept.encode("utf-8", "replace").decode("utf-8"))
