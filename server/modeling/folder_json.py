"""Check the JSON files of a model's folder, which somebody else wrote, before use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import CorruptArtifactError, PocketQueryError, UnknownModelError
from pocketquery.sdk.fields import no_constant
from pocketquery.sdk.validation import Rule, check

__all__ = [
    "BOOLEAN",
    "OBJECT",
    "TEXT",
    "check_whole_file",
    "field",
    "first_line",
    "read_json",
    "read_object",
    "refusing",
]

BOOLEAN = Rule(lambda value: isinstance(value, bool), "true or false")
OBJECT = Rule(lambda value: isinstance(value, dict), "an object")

_POINTER = b"version https://git-lfs"


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(value.encode("utf-8") or True)
    except UnicodeEncodeError:  # JSON can hold half a character, UTF-8 cannot
        return False


TEXT = Rule(_is_text, "a text")


def read_json(path: Path) -> Any:
    """What the file holds; None where there is no such file.

    Raises:
        CorruptArtifactError: it cannot be read, is not JSON, or is a Git LFS pointer.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CorruptArtifactError(
            f"{path} cannot be read ({error.strerror}); copy the model again"
        ) from error
    _check_no_pointer(path, data)
    try:
        return json.loads(data.decode("utf-8"), parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptArtifactError(f"{path} is not JSON ({error}); copy the model again") from error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in the file; an empty one where there is no such file.

    Raises:
        CorruptArtifactError: as :func:`read_json`, or it is JSON of another kind.
    """
    value = read_json(path)
    if value is None and not path.exists():
        return {}
    check(str(path), value, OBJECT, CorruptArtifactError)
    return dict(value)


def field(path: Path, values: dict[str, Any], name: str, rule: Rule, default: Any = None) -> Any:
    """The value of ``name``, ``default`` where it is absent.

    Args:
        path: the file that ``values`` were read from.
        values: one of its objects.
        name: the key.
        rule: what the value must be.
        default: as ``rule`` says, or not.

    Raises:
        CorruptArtifactError: it is there and not as ``rule`` says.
    """
    if name not in values:
        return default
    check(f'{path}: "{name}"', values[name], rule, CorruptArtifactError)
    return values[name]


def check_whole_file(path: Path) -> None:
    """Raise CorruptArtifactError where a large file is empty or a Git LFS pointer."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_POINTER))
    except OSError as error:
        raise CorruptArtifactError(
            f"{path} cannot be read ({error.strerror}); copy the model again"
        ) from error
    if not start:
        raise CorruptArtifactError(f"{path} is empty; copy the model again")
    _check_no_pointer(path, start)


def first_line(error: BaseException) -> str:
    """What an error says, in one line of at most 200 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = " ".join(lines[:2]) or type(error).__name__
    message = f"{type(error).__name__}: {message}" if isinstance(error, KeyError) else message
    return message if len(message) <= 200 else f"{message[:200]}…"


@contextmanager
def refusing(path: Path | str, problem: str) -> Iterator[None]:
    """Whatever a library raises within becomes an UnknownModelError that names ``path``."""
    try:
        yield
    except (PocketQueryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the tokenizers' own is no Exception
        raise UnknownModelError(
            f"{path} {problem} ({first_line(error)}); expected config.json, model.safetensors and "
            "tokenizer files as save_pretrained writes them"
        ) from error


def _check_no_pointer(path: Path, start: bytes) -> None:
    if start.startswith(_POINTER):
        raise CorruptArtifactError(
            f"{path} is a Git LFS pointer, expected the file that it stands for; run `git lfs "
            "pull` where the model was cloned, or download it again"
        )
