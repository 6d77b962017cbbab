"""Checkpoints that survive a kill at any moment and refuse to resume another run."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError
from pocketquery.sdk.files import real_path, write_atomic

__all__ = ["clear_work", "load_checkpoint", "save_checkpoint", "work_folder"]

_FILE = r"checkpoint\.pt|log\.jsonl|[0-9a-f]{32}\.npy"
_CHECKPOINT_NAME = re.compile(rf"(?:{_FILE})|\.(?:{_FILE})\.[0-9a-f]{{8}}\.tmp")


def work_folder(output: Path) -> Path:
    """The folder beside ``output`` where a run keeps what it needs to be resumed."""
    place = real_path(output)  # "." has no name
    return place.with_name(place.name + ".work")


def save_checkpoint(path: Path, identity: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Replace ``path`` by ``state`` in one step.

    Args:
        path: the checkpoint file.
        identity: what makes the run this run (configuration, data hashes); JSON values.
        state: tensors, numbers and state dicts.
    """
    buffer = io.BytesIO()
    torch.save({"identity": json.dumps(identity, sort_keys=True), "state": dict(state)}, buffer)
    write_atomic(path, buffer.getvalue())


def load_checkpoint(path: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state saved in ``path``, or None where there is none.

    Raises:
        CorruptArtifactError: the file is not a checkpoint.
        ArtifactError: it belongs to a run with another configuration or other data.
    """
    if not path.exists():
        return None
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        present = json.loads(saved["identity"])
    except Exception as error:
        raise CorruptArtifactError(
            f"{path} is not a readable checkpoint ({type(error).__name__}); delete it to start anew"
        ) from error
    expected = json.loads(json.dumps(identity))
    if present != expected:
        keys = sorted(present.keys() | expected.keys())
        changes = ", ".join(
            f"{key}: {present.get(key)!r} → {expected.get(key)!r}"
            for key in keys
            if present.get(key) != expected.get(key)
        )
        raise ArtifactError(
            f"{path} belongs to another run ({changes}); run with the same settings and data to "
            "resume it, or delete it to start anew"
        )
    state: dict[str, Any] = saved["state"]
    return state


def clear_work(folder: Path) -> None:
    """Remove what a run keeps in ``folder`` to be resumed: checkpoint, log and vectors.

    What else lies there stays, and the folder with it. The checkpoint goes last, so that a kill on
    the way leaves a folder that still says whose it is.
    """
    with contextlib.suppress(OSError):  # what cannot be removed is in nobody's way
        files = [file for file in folder.iterdir() if _CHECKPOINT_NAME.fullmatch(file.name)]
        for file in sorted(files, key=lambda file: file.name == "checkpoint.pt"):
            file.unlink()
        folder.rmdir()
