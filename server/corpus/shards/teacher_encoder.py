"""A teacher as an encoder of documents: the entry point ``teacher`` of the group
``pocketquery.document_encoders``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.installed import installed_bundle
from pocketquery.sdk.errors import MissingExtraError, SpaceMismatchError
from pocketquery.sdk.indexing.document_encoder import DocumentEncoder, EncoderSource

__all__ = ["absolute_source", "open_teacher"]


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


def open_teacher(source: EncoderSource) -> DocumentEncoder:
    """Load the teacher that ``source`` names. Raises as :meth:`EncoderSource.open`."""
    assert source.teacher is not None
    try:
        from pocketquery.server.modeling import SentenceEncoder

        teacher = SentenceEncoder.load(source.teacher, device=source.device)
    except ModuleNotFoundError as error:  # torch, say
        package = str(error.name).partition(".")[0]
        extra = source.teacher if source.teacher in ("demo", "multilingual") else "export"
        raise MissingExtraError.of(package, extra) from error
    if source.bundle:
        space_id = Bundle.open(source.bundle, public_key=source.public_key).manifest.space.id
        if space_id != teacher.space_id:
            raise SpaceMismatchError.between(
                f"the bundle {source.bundle}", space_id, "the teacher", teacher.space_id
            )
    prompt = teacher.prompts.get("document", "")

    def tokens(texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        batch = teacher.tokenize([prompt + text for text in texts])
        rows = zip(batch["input_ids"], batch["attention_mask"].bool(), strict=True)
        return [ids[mask].tolist() for ids, mask in rows]

    return DocumentEncoder(
        teacher.space_id,
        teacher.dimension,
        teacher.encode_document,
        tokens,
        teacher.max_length,
        # A student may teach, too: its space is its teacher's, and its vectors are its own.
        digest=teacher.content_id,
    )


def _is_offline(teacher: str) -> bool:
    try:
        from pocketquery.server.modeling.resolve import offline_teacher
    except ImportError:  # without torch no teacher opens, and opening it says so
        return True
    return offline_teacher(teacher) is not None
