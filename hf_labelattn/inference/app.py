"""A small web application: paste a note, see its codes with their evidence, score a label nobody has trained.

Gradio (`pip install "hf_labelattn[demo]"`) draws it. Nothing is written to disk, nothing is asked of other servers,
and the page of a note is shown in a sandboxed frame, where only its own script runs.
"""

import os
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from .note_view import NoteView
from .prediction import Predictor

if TYPE_CHECKING:
    import gradio

SYSTEM_FONTS = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
NOTHING_YET = '<p class="note-frame nothing-yet">The coded note will stand here.</p>'
STYLE = """
.note-frame { width: 100%; height: 44rem; border: 1px solid var(--border-color-primary); border-radius: 8px; }
.nothing-yet { display: grid; place-items: center; color: var(--body-text-color-subdued); }
.gradio-container { max-width: 1500px !important; }
"""
INTRODUCTION = """# Code a note
Paste a note and press the button: each code is shown with its probability and the passages that speak for it. Notes
are read in memory and forgotten. A research model, no medical device: codes need the eyes of a trained coder."""
NO_NEW_LABELS = """**Labels of your own** need a model with a matcher. This one scores only the {count:,} labels it was
trained on; `run_scripts/run_interaction.py --base …` joins any model with a matcher that finds a label by its
description."""


class BodyLimit:
    """Refuses requests larger than any note, and file uploads, before Gradio sees them.

    Args:
        app: What comes behind it.
        max_bytes: Largest body of a request.
    """

    def __init__(self, app, max_bytes: int):
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"].rstrip("/").endswith("/upload"):
            await self._refuse(send, 403, b"This application takes no files.")
            return
        messages, size = [], 0
        while True:  # read before anything is answered, so that a stream without a length is limited too
            messages.append(await receive())
            size += len(messages[-1].get("body", b""))
            if size > self.max_bytes:
                await self._refuse(send, 413, b"The note is too long.")
                return
            if not messages[-1].get("more_body"):
                break
        messages.reverse()

        async def replay():
            return messages.pop() if messages else await receive()

        await self.app(scope, replay, send)

    @staticmethod
    async def _refuse(send, status: int, reason: bytes) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": reason})


def frame(page: str) -> str:
    """A page inside another: its script runs, but cannot reach the application around it."""
    return (
        f'<iframe class="note-frame" title="Codes and note" sandbox="allow-scripts" srcdoc="{escape(page)}"></iframe>'
    )


def build_app(predictor: Predictor, examples: Sequence[str] = (), max_characters: int = 100_000) -> "gradio.Blocks":
    """The application; start it with [`launch_app`].

    Args:
        predictor: The model and its tokenizer.
        examples: Notes offered to try.
        max_characters: Longest note taken.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when Gradio is imported
    import gradio

    view = NoteView(predictor, max_characters)

    def show(text, top_k, added):
        return frame(_or_error(view.page, text or "", int(top_k) or None, added))

    def add(name, description, text, top_k, added):
        added = _or_error(view.with_label, name or "", description or "", added)
        return show(text, top_k, added), added, "", "", _list_labels(added)

    def clear(text, top_k):
        return show(text, top_k, {}), {}, _list_labels({})

    with gradio.Blocks(title="Code a note", analytics_enabled=False, fill_width=True) as app:
        app.max_bytes = 8 * max_characters + 2**16  # a character may be escaped as \uXXXX
        added = gradio.State({})
        gradio.Markdown(INTRODUCTION)
        with gradio.Row():
            with gradio.Column(scale=2, min_width=320):
                note = _note_inputs(gradio, examples, max_characters)
                top_k = gradio.Slider(0, 20, 0, step=1, label="Codes to show", info="0: those above the threshold")
                button = gradio.Button("Code the note", variant="primary", elem_id="code")
                name, description, more, less, listed = _label_inputs(gradio, view)
            with gradio.Column(scale=5, min_width=480):
                shown = gradio.HTML(NOTHING_YET, elem_id="view")
        # One note at a time: the model is shared.
        options = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
        button.click(show, [note, top_k, added], shown, **options)
        if more is not None:
            inputs = [name, description, note, top_k, added]
            more.click(add, inputs, [shown, added, name, description, listed], **options)
            less.click(clear, [note, top_k], [shown, added, listed], **options)
    return app


def _note_inputs(gradio, examples: Sequence[str], max_characters: int):
    note = gradio.Textbox(label="Note", lines=14, max_lines=14, max_length=max_characters, elem_id="note")
    with gradio.Row():
        for number, text in enumerate(examples, 1):
            button = gradio.Button(f"Example {number}", size="sm", min_width=80)
            button.click(lambda text=text: text, None, note, api_visibility="private")
    return note


def _label_inputs(gradio, view: NoteView) -> tuple:
    """Fields for a label of one's own, or the reason why there are none."""
    if not view.scores_new_labels:
        count = view.predictor.model.config.num_labels
        gradio.Markdown(NO_NEW_LABELS.format(count=count), elem_id="no-new-labels")
        return (None,) * 5
    with gradio.Accordion("Score a label of your own", open=True):
        gradio.Markdown("The model looks for its description in the note; it needs no training.")
        name = gradio.Textbox(label="Name", max_lines=1, elem_id="label-name")
        description = gradio.Textbox(label="Description", max_lines=3, elem_id="label-description")
        with gradio.Row():
            more = gradio.Button("Add the label", size="sm", min_width=80, elem_id="add-label")
            less = gradio.Button("Remove all added", size="sm", min_width=80, elem_id="remove-labels")
        listed = gradio.Markdown(_list_labels({}), elem_id="labels")
    return name, description, more, less, listed


def _list_labels(added: dict[str, str]) -> str:
    names = ", ".join(f"`{name.replace('`', ' ')}`" for name in added)
    return f"Added: {names}" if added else "None added yet."


def _or_error(function, *arguments):
    """The result, or a message the visitor sees in place of it."""
    import gradio

    try:
        return function(*arguments)
    except ValueError as error:
        raise gradio.Error(str(error), print_exception=False) from None


def launch_app(app: "gradio.Blocks", host: str = "127.0.0.1", port: int | None = None) -> str:
    """Serve the application in the background; `app.block_thread()` waits until it is interrupted.

    Args:
        app: From [`build_app`].
        host: Where it listens; the default is reached from this machine only.
        port: Default: the first free one from 7860.

    Returns:
        Its address.
    """
    import gradio
    from starlette.middleware import Middleware

    private = {"share": False, "run_history": False, "enable_monitoring": False, "pwa": False, "mcp_server": False}
    looks = {"theme": gradio.themes.Default(**SYSTEM_FONTS), "css": STYLE, "footer_links": [], "ssr_mode": False}
    limits = {"max_file_size": 1, "app_kwargs": {"middleware": [Middleware(BodyLimit, max_bytes=app.max_bytes)]}}
    background = {"prevent_thread_lock": True, "quiet": True}
    app.queue(max_size=256)  # visitors wait for each other; beyond this they are turned away
    return app.launch(server_name=host, server_port=port, **background, **private, **looks, **limits)[1]
