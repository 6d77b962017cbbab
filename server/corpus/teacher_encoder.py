"""A teacher as an encoder of documents: the entry point ``teacher`` of the group
``pocketquery.document_encoders``."""

from __future__ import annotations

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import MissingExtraError, SpaceMismatchError
from pocketquery.sdk.indexing.document_encoder import DocumentEncoder, EncoderSource

__all__ = ["open_teacher"]


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
