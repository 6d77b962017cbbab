"""What makes two augmenters the same: name, version, parameters and the files they require."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pocketquery.client.views.augmenters import Augmenter
from pocketquery.sdk.files import sha256_file

__all__ = ["Identity"]

_NO_PARAMETERS = ("device",)


class Identity(NamedTuple):
    """An augmenter's name, version and parameters.

    Attributes:
        name: the augmenter's.
        version: what its author calls its ``version``; ``"1"`` where nothing does.
        params: its fields as JSON, in which a file or folder that it requires is the SHA-256 of its
            content. So a model that is trained further is another one, and a moved one is the same.
    """

    name: str
    version: str
    params: str

    @classmethod
    def of(cls, augmenter: Augmenter) -> Identity:
        """The identity of ``augmenter``; reads the files it requires."""
        fields: tuple[dataclasses.Field[Any], ...] = ()
        if dataclasses.is_dataclass(augmenter):
            fields = dataclasses.fields(augmenter)
        params = {
            one.name: _value(getattr(augmenter, one.name), augmenter.requires)
            for one in fields
            if one.name not in _NO_PARAMETERS
        }
        text = json.dumps(params, sort_keys=True, ensure_ascii=False, default=_plain)
        return cls(augmenter.name, str(getattr(augmenter, "version", "1")), text)


def _value(value: Any, required: Sequence[str]) -> Any:
    # Only what is required is a place: a language "en" is none, even where a folder is called so.
    if isinstance(value, (str, Path)) and str(value) in required:
        place = Path(value)
        if place.is_file():
            return f"sha256:{sha256_file(place)}"
        if place.is_dir():
            return f"sha256:{_folder_digest(place)}"
    return value


def _folder_digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole.update(f"{file.relative_to(folder).as_posix()}\0{sha256_file(file)}\n".encode())
    return whole.hexdigest()


def _plain(value: Any) -> Any:
    """JSON of what JSON has no word for."""
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return dict(value) if hasattr(value, "keys") else str(value)
