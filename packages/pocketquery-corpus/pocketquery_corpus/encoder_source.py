"""Where an encoder of documents is loaded from, for processes with other working folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pocketquery.sdk.bundle.installed import installed_bundle
from pocketquery.sdk.indexing.document_encoder import EncoderSource

__all__ = ["absolute_source"]


def absolute_source(source: EncoderSource) -> EncoderSource:
    """The same with absolute paths, for processes with other working folders."""
    named = {"public_key": source.public_key}
    # Names stay names, whatever is called so in the working folder.
    if source.bundle is not None and installed_bundle(source.bundle) is None:
        named["bundle"] = source.bundle
    if source.teacher is not None and not _is_offline(source.teacher):
        named["teacher"] = source.teacher
    paths: dict[str, Any] = {
        name: str(Path(value).absolute())
        for name, value in named.items()
        if isinstance(value, (str, Path)) and Path(value).exists()
    }
    return replace(source, **paths)


def _is_offline(teacher: str) -> bool:
    try:
        from pocketquery.server.modeling.resolve import offline_teacher
    except ImportError:  # without torch no teacher opens, and opening it says so
        return True
    return offline_teacher(teacher) is not None
