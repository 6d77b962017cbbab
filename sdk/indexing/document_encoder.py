"""Which encoder makes the vectors of documents: the bundle itself, or a teacher.

The bundle needs nothing but the base install. A teacher finds more and needs torch. A package that
can open one registers a function ``teacher`` in the entry-point group
``pocketquery.document_encoders`` that takes an :class:`EncoderSource` and gives a
:class:`DocumentEncoder`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import MissingExtraError
from pocketquery.sdk.files import sha256_bytes
from pocketquery.sdk.index.encoders import encoder_name
from pocketquery.sdk.indexing.building import cores
from pocketquery.sdk.loading import load
from pocketquery.sdk.plugins import load_plugin

__all__ = ["DocumentEncoder", "EncoderSource"]

_GROUP = "pocketquery.document_encoders"


@dataclass(frozen=True)
class DocumentEncoder:
    """A loaded encoder of documents.

    Attributes:
        space_id: of its vectors.
        dimension: of its vectors.
        encode: texts to float (n, dimension).
        tokens: the token ids of each text as it is encoded: prompted, at most ``max_length``.
        max_length: tokens of a text that are read.
        name: where it is not the encoder that the space is named after.
        digest: tells two encoders of one name, version and space apart.
        threads: calls of ``encode`` at once that are faster than one.
        languages: codes of those that it was made for; none where nobody says.
        reads: whether it reads a text; None: nobody knows.
    """

    space_id: str
    dimension: int
    encode: Callable[[list[str]], NDArray[Any]]
    tokens: Callable[[list[str]], list[list[int]]]
    max_length: int
    name: str = ""
    digest: str = ""
    threads: int = 1
    languages: tuple[str, ...] = ()
    reads: Callable[[str], bool] | None = None

    @classmethod
    def of(cls, encoder: Encoder) -> DocumentEncoder:
        """A bundle's encoder, on all cores."""
        prompt = encoder.manifest.prompts.get("document", "")
        return cls(
            encoder.space_id,
            encoder.dimension,
            encoder.encode_document,
            lambda texts: [encoder.tokenize(prompt + text) for text in texts],
            encoder.max_length,
            name=encoder_name(encoder),
            digest=sha256_bytes(encoder.manifest.to_json()),  # which names every file's hash
            threads=cores(),
            languages=encoder.languages,
            reads=encoder.reads,
        )

    def count_tokens(self, texts: list[str]) -> list[int]:
        """How many tokens of each text are read; ``max_length`` where it may be longer."""
        return [len(ids) for ids in self.tokens(texts)]


@dataclass(frozen=True)
class EncoderSource:
    """Where an encoder of documents is loaded from, in any process. ::

        encoder = EncoderSource().open()  # the built-in bundle
        encoder = EncoderSource(teacher="demo").open()

    Attributes:
        teacher: a model folder, Hub name, "demo" or "multilingual"; None: the bundle encodes.
        bundle: the bundle that encodes (None: the default one); beside a teacher, one whose space
            must be the teacher's.
        public_key: the bundle must be signed by its private half.
        device: torch's, for the teacher.
    """

    teacher: str | None = None
    bundle: str | None = None
    public_key: Key | None = None
    device: str = "cpu"

    def open(self) -> DocumentEncoder:
        """Load it.

        Raises:
            MissingExtraError: what the teacher needs is not installed.
            UnknownModelError, InvalidInputError: the teacher cannot be loaded.
            SpaceMismatchError: the bundle is of another space than the teacher.
            ArtifactError: the bundle cannot be used.
        """
        if self.teacher is None:
            return DocumentEncoder.of(load(self.bundle, public_key=self.public_key))
        try:
            open_teacher = load_plugin(_GROUP, "teacher", "export")
            opened: DocumentEncoder = open_teacher(self)
        except MissingExtraError as error:
            raise MissingExtraError(
                f"{error}; or leave --teacher out, and the bundle encodes the documents"
            ) from error
        return opened
