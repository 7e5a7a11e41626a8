"""Files that are there whole or not at all, and weights that are what was written.

Everything this library writes goes through [`replacing`] or [`replacing_files`]: a reader, a full disk or a killed
process meets the old file or the new one, never half of one.
"""

import errno
import hashlib
import json
import os
import platform
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

import torch

DIGEST = ".sha256"  # behind the name of a weights file; `sha256sum -c` reads it
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FULL_WORDS = ("no space left", "file too large", "quota exceeded", "streamwriter failed", "iostream error")


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the name when the block ends, and is removed when the block fails.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as partial:
    ...         _ = partial.write_text("whole")
    ...     [(file.name, file.read_text()) for file in Path(folder).iterdir()]
    [('a.txt', 'whole')]
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    try:
        yield partial
        _to_disk(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replacing_files(folder: str | os.PathLike, last: str = "config.json") -> Iterator[Path]:
    """A folder to write to, whose files move into `folder` one by one when the block ends, the one named `last` last.

    Weights get their digest beside them, by which [`check_weights`] finds a flipped bit.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    partial = _partial(folder / "files")
    try:
        partial.mkdir()
        yield partial
        for weights in partial.glob("*.safetensors"):
            (partial / f"{weights.name}{DIGEST}").write_text(f"{_digest(weights)}  {weights.name}\n")
        for file in sorted(partial.iterdir(), key=lambda file: file.name == last):
            _to_disk(file)
            os.replace(file, folder / file.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def save_whole(folder: str | os.PathLike, *parts) -> None:
    """`save_pretrained` of models and tokenizers into a folder; none of its files is ever there by half."""
    with replacing_files(folder) as files:
        for part in parts:
            part.save_pretrained(files)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text file as UTF-8, whole or not at all; line ends stay as they are."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")


def write_json(path: str | os.PathLike, value: dict) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def check_weights(folder: str | os.PathLike) -> None:
    """Refuse a folder whose weights are not the ones that were written there; a Hub id passes."""
    for digest in sorted(Path(folder).glob(f"*.safetensors{DIGEST}")):
        weights = digest.with_name(digest.name.removesuffix(DIGEST))
        if not weights.is_file():
            raise ValueError(f"{folder} has no {weights.name}, so it holds no model. Copy it again, or train again.")
        if _digest(weights) != digest.read_text().split()[0]:
            raise ValueError(
                f"{weights} is not the file that was written: its content has changed. Copy it again, or train again; "
                f"if you changed it on purpose, remove {digest.name}."
            )


def load_model(model_class: type, source: str | os.PathLike, **options):
    """`model_class.from_pretrained(source)`; a folder with a broken checkpoint is refused in one sentence.

    Args:
        model_class: Such as `AutoModelForSequenceClassification`.
        source: Folder or Hub id.
        **options: Passed on to `from_pretrained`.
    """
    if not Path(source).is_dir():
        return model_class.from_pretrained(source, **options)
    check_weights(source)
    try:
        return model_class.from_pretrained(source, **options)
    except Exception as error:  # of safetensors, json, torch or transformers, each with its own kind
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        differs = next((line for line in lines if "mismatch" in line.lower() and "ckpt" in line.lower()), None)
        reason = (differs or (lines[0] if lines else type(error).__name__)).rstrip(".")
        raise ValueError(f"{source} cannot be loaded: {reason}. Copy it again, or train again.") from error


def check_archive(path: Path) -> None:
    """Refuse a file of `torch.save` that is cut or has a flipped bit: each of its parts has a checksum."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError, EOFError) as error:
        raise ValueError(f"{path.name} is broken ({error})") from None
    if broken is not None:
        raise ValueError(f"{path.name} is broken (wrong checksum of {broken})")


def load_archive(path: Path, device: str | torch.device = "cpu") -> dict:
    """What `torch.save` wrote, tensors and plain values only; a damaged file is refused in one sentence."""
    try:
        check_archive(path)
        return torch.load(path, map_location=device, weights_only=True)
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} cannot be gone on from: {reason}. Remove {path.parent} to start again.") from None


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, says that there is no room to write."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        if any(words in str(error).lower() for words in FULL_WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False


def _partial(path: Path) -> Path:
    """A name of this process's own; what processes that are gone left under such names is removed."""
    start = f".{path.name}.{platform.node()}."
    for left in path.parent.glob(f"{escape(start)}*.partial*"):
        number = left.name.removeprefix(start).split(".")[0]
        if number.isdecimal() and not _is_running(int(number)):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    return path.with_name(f"{start}{os.getpid()}.partial{path.suffix}")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return process != os.getpid()


def _to_disk(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
