"""Which encoder makes a corpus's vectors: a teacher, or a bundle's own light encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.bundle.installed import installed_bundle
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import MissingExtraError, SpaceMismatchError
from pocketquery.sdk.files import sha256_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OpenedEncoder", "EncoderSource"]


@dataclass(frozen=True)
class OpenedEncoder:
    """An open one.

    Attributes:
        space_id: of its vectors.
        dimension: of its vectors.
        encode: texts to float (n, dimension).
        tokens: the token ids of each text as it is encoded: prompted, at most ``max_length``.
        max_length: tokens of a text that are read.
        name: where it is not the encoder that the space is named after.
        digest: what tells two encoders of one name, version and space apart.
    """

    space_id: str
    dimension: int
    encode: Callable[[list[str]], NDArray[Any]]
    tokens: Callable[[list[str]], list[list[int]]]
    max_length: int
    name: str = ""
    digest: str = ""


@dataclass(frozen=True)
class EncoderSource:
    """Where it is opened from, in any process.

    Attributes:
        teacher: a model folder, Hub name or "demo"; without meaning beside ``symmetric``.
        symmetric: the bundle encodes.
        bundle: beside ``symmetric`` the one that encodes (None: the built-in one), else
            one whose space must be the teacher's.
        public_key: the bundle must be signed by its private half.
        device: torch's.
    """

    teacher: str = "demo"
    symmetric: bool = False
    bundle: str | None = None
    public_key: Key | None = None
    device: str = "cpu"

    def absolute(self) -> EncoderSource:
        """The same with absolute paths, for processes with other working folders."""
        named = {"public_key": self.public_key}
        # Names stay names, whatever is called so in the working folder.
        if self.bundle is not None and installed_bundle(self.bundle) is None:
            named["bundle"] = self.bundle
        if not self.symmetric and not _is_demo(self.teacher):
            named["teacher"] = self.teacher
        paths: dict[str, Any] = {
            name: str(Path(value).absolute())
            for name, value in named.items()
            if isinstance(value, (str, Path)) and Path(value).exists()
        }
        return replace(self, **paths)

    def open(self) -> OpenedEncoder:
        """Load it.

        Raises:
            MissingExtraError: what the teacher needs is not installed.
            UnknownModelError, InvalidInputError: the teacher cannot be loaded.
            SpaceMismatchError: the bundle lives in another space than the teacher.
            ArtifactError: the bundle cannot be used.
        """
        return self._light() if self.symmetric else self._heavy()

    def _light(self) -> OpenedEncoder:
        from pocketquery.sdk.loading import load

        encoder = load(self.bundle, public_key=self.public_key)
        name = f"{encoder.name} {encoder.version}"
        digest = sha256_bytes(encoder.manifest.to_json())  # which names every file's hash
        prompt = encoder.manifest.prompts.get("document", "")

        def tokens(texts: list[str]) -> list[list[int]]:
            return [encoder.tokenize(prompt + text) for text in texts]

        return OpenedEncoder(
            encoder.space_id,
            encoder.dimension,
            encoder.encode_document,
            tokens,
            encoder.max_length,
            name,
            digest,
        )

    def _heavy(self) -> OpenedEncoder:
        from pocketquery.sdk.bundle.bundle import Bundle

        try:
            from pocketquery.server.modeling import SentenceEncoder

            teacher = SentenceEncoder.load(self.teacher, device=self.device)
        except (MissingExtraError, ModuleNotFoundError) as error:
            missing: ImportError = error
            if isinstance(error, ModuleNotFoundError):  # torch, say
                package = str(error.name).partition(".")[0]
                missing = MissingExtraError.of(
                    package, "demo" if self.teacher == "demo" else "export"
                )
            raise MissingExtraError(
                f"{missing}; or pass --symmetric, and the light encoder encodes the documents too"
            ) from error
        if self.bundle:
            space_id = Bundle.open(self.bundle, public_key=self.public_key).manifest.space.id
            if space_id != teacher.space_id:
                raise SpaceMismatchError.between(
                    f"the bundle {self.bundle}", space_id, "the teacher", teacher.space_id
                )
        # A student may teach, too: its space is its teacher's, and its vectors are its own.
        digest = teacher.content_id
        prompt = teacher.prompts.get("document", "")

        def tokens(texts: list[str]) -> list[list[int]]:
            if not texts:
                return []
            batch = teacher.tokenize([prompt + text for text in texts])
            rows = zip(batch["input_ids"], batch["attention_mask"].bool(), strict=True)
            return [ids[mask].tolist() for ids, mask in rows]

        return OpenedEncoder(
            teacher.space_id,
            teacher.dimension,
            teacher.encode_document,
            tokens,
            teacher.max_length,
            digest=digest,
        )


def _is_demo(teacher: str) -> bool:
    try:
        from pocketquery.server.modeling.resolve import is_demo
    except ImportError:  # without torch no teacher opens, and opening it says so
        return True
    return is_demo(teacher)
