"""Teachers: an encoder of ours, or one that is only asked for vectors.

The latter are a function, any model of sentence-transformers, or a file (``vector_file.py``). Their
space gets its id from weights where there are some; else from name, revision and vectors of probe
texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pocketquery.sdk.arrays import AnyFloats, Floats
from pocketquery.sdk.errors import InvalidInputError, MissingExtraError, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder, resolve_model, weights_fingerprint
from pocketquery.server.modeling.resolve import model_name
from pocketquery.server.modeling.sentence_encoder import to_device

__all__ = ["ModelTeacher", "Teacher", "VectorTeacher", "check_steady", "directions", "load_teacher"]

_PROBES = (
    "How do I reset my password?",
    "The train to Oslo leaves at seven.",
    "Tee bei 80 Grad ziehen lassen, drei Minuten, und dann das Blatt herausnehmen.",
    "東京タワーは何メートルですか",
)
_LEAST_COSINE = 1 - 1e-3  # of a text's vectors from two calls: services round
_LEAST_COSINE_BESIDE = 1 - 1e-4  # of a text's vectors alone and beside a longer one


def directions(vectors: AnyFloats) -> tuple[Floats, NDArray[np.intp]]:
    """``vectors`` (n, dimension) as float32 rows of unit length, and which rows have no direction:
    zeros, or values that are not finite."""
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return (vectors / norms).astype(np.float32), bad


class VectorTeacher:
    """A teacher of which nothing is known but its vectors. ::

        def ask(texts, role):  # role: "query" or "document"
            return client.embed(texts, model="embed-3", input_type=role)

        distill(VectorTeacher(ask, name="embed-3", revision="2026-01"), texts, "student")

    Args:
        encode: texts and their role to floats (n, dimension); asked for 64 texts at a time.
        name: of the model, for reports and the space's id.
        revision: of the model, for the space's id.

    Raises:
        InvalidInputError: what ``encode`` gives is no matrix of finite floats, a row a text.
    """

    prompts: Mapping[str, str] = MappingProxyType({"query": "", "document": ""})
    """The roles; what is put before texts is the model's own matter."""
    max_length = 0
    """Not known: the model cuts texts as it does."""
    is_fixed = False
    """Whether its vectors stand somewhere, and cannot change from call to call."""

    def __init__(
        self, encode: Callable[[list[str], str], AnyFloats], *, name: str, revision: str = ""
    ) -> None:
        self._encode = encode
        self.name = name
        self._revision = revision

    def encode(
        self, texts: Sequence[str], *, prompt_name: str | None = None, batch_size: int = 64
    ) -> Floats:
        """Vectors of ``texts``, float32 (n, dimension), rows of unit length.

        Args:
            texts: at least one.
            prompt_name: the role, ``"query"`` unless given.
            batch_size: texts that are asked for at a time.
        """
        starts = range(0, len(texts), batch_size)
        parts = [self._unit(texts[i : i + batch_size], prompt_name or "query") for i in starts]
        return np.concatenate(parts)

    def encode_document(self, texts: Sequence[str], *, show_progress_bar: bool = False) -> Floats:
        """:meth:`encode` of documents."""
        return self.encode(texts, prompt_name="document")

    def _unit(self, texts: Sequence[str], role: str) -> Floats:
        vectors = np.asarray(self._encode(list(texts), role))
        if vectors.dtype.kind != "f" or vectors.ndim != 2 or len(vectors) != len(texts):
            raise InvalidInputError(
                f"{self.name} gave {vectors.dtype} of shape {vectors.shape} for {len(texts)} "
                "texts, expected floats, a row for each"
            )
        unit, bad = directions(vectors)
        if len(bad):
            raise InvalidInputError(
                f"{self.name} gave a vector of zeros, or one that is not finite, for "
                f"{texts[bad[0]][:60]!r}; expected finite numbers with a direction"
            )
        return unit

    @cached_property
    def dimension(self) -> int:
        """Width of the vectors."""
        return int(self._probes("query").shape[1])

    @property
    def space_id(self) -> str:
        """The space that the vectors are in."""
        return self.content_id

    @cached_property
    def content_id(self) -> str:
        """Names what computes the vectors. Of those of probe texts the cosines count, to a tenth,
        for a service's last digits differ from call to call."""
        cosines = self._probes("query") @ self._probes("document").T
        tenths = [round(10 * float(one)) for one in cosines.flat]
        identity = {**self._origin(), "dimension": self.dimension, "probes": tenths}
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        return f"space-{digest[:32]}"

    def _probes(self, role: str) -> Floats:
        return self.encode(_PROBES, prompt_name=role)

    def _origin(self) -> dict[str, Any]:
        return {"name": self.name, "revision": self._revision}

    @property
    def device(self) -> torch.device:
        """Where what is computed of the vectors is."""
        return torch.device("cpu")

    def to(self, device: str) -> Self:
        """Itself: what encodes is where it is."""
        return self

    def check_kept(self, path: str | Path) -> None:
        """Nothing to do: no folder holds it."""


class ModelTeacher(VectorTeacher):
    """Any model that sentence-transformers loads, with its own prompts. ::

        distill(ModelTeacher(SentenceTransformer("acme/embed")), texts, "student")

    Args:
        model: a ``SentenceTransformer``.
        name: of the model, for reports.
    """

    def __init__(self, model: Any, name: str = "model") -> None:
        super().__init__(self._of_model, name=name)
        self._model = model

    def _of_model(self, texts: list[str], role: str) -> AnyFloats:
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        vectors: torch.Tensor = encode(texts, convert_to_tensor=True, show_progress_bar=False)
        return vectors.float().cpu().numpy()

    def _origin(self) -> dict[str, Any]:
        return {
            "weights_sha256": weights_fingerprint(self._model.state_dict()),
            "prompts": {name: text for name, text in self._model.prompts.items() if text},
            "modules": [type(module).__name__ for module in self._model],
        }

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return torch.device(self._model.device)

    def to(self, device: str) -> Self:
        """Itself, its weights on ``device``."""
        to_device(self._model, device)
        return self


Teacher: TypeAlias = SentenceEncoder | VectorTeacher


def load_teacher(name_or_path: str | Path, *, device: str = "cpu") -> Teacher:
    """A teacher by its name. ::

        load_teacher("vectors.parquet")

    Args:
        name_or_path: what :meth:`SentenceEncoder.load` takes; a folder that it does not reproduce,
            and sentence-transformers loads (extra "teachers"); a file of texts and vectors.
        device: torch device.

    Raises:
        UnknownModelError: neither loads it.
        MissingExtraError: it may be one for sentence-transformers, which is not installed.
        InvalidInputError, ArtifactError: a file that cannot be used.
    """
    if Path(name_or_path).is_file():
        from pocketquery.distill.vector_file import FileTeacher

        return FileTeacher(name_or_path)
    folder = resolve_model(name_or_path)
    try:
        return SentenceEncoder.load(name_or_path, device=device)
    except UnknownModelError as error:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            extra = MissingExtraError.remedy("teachers")
            raise UnknownModelError(
                f"{error}. sentence-transformers may load it, and is not installed: {extra}"
            ) from error
        try:
            model = SentenceTransformer(str(folder), device=device, local_files_only=True)
        except Exception as second:  # whatever a model's own loading raises
            raise UnknownModelError(
                f"{error}; nor does sentence-transformers load it "
                f"({type(second).__name__}: {str(second).partition(chr(10))[0]})"
            ) from error
        return ModelTeacher(model, model_name(name_or_path))


def check_steady(teacher: Teacher) -> None:
    """Ask for the vectors of probe texts twice, and alone.

    Raises:
        UnknownModelError: the second ones are others, or a text's vector depends on the texts
            beside it.
    """
    if isinstance(teacher, VectorTeacher) and teacher.is_fixed:
        return
    first, second = (teacher.encode(_PROBES) for _ in range(2))
    steady = float((first * second).sum(axis=1).min())
    if steady < _LEAST_COSINE:
        raise UnknownModelError(
            f"{teacher.name} gives other vectors the second time (cosine {steady:.3f}, expected "
            f"at least {_LEAST_COSINE:g}); nothing can be learnt of it. Switch off its dropout or "
            "sampling"
        )
    text = "a"
    beside = float(teacher.encode([text])[0] @ teacher.encode([text, "a longer text beside it"])[0])
    if isinstance(teacher, SentenceEncoder) and beside < _LEAST_COSINE_BESIDE:
        raise UnknownModelError(
            f"{teacher.name}: the vector of a text depends on the texts beside it (cosine "
            f"{beside:.3f}), since padding on the {teacher.tokenizer.padding_side} moves its "
            'positions; say "padding_side": "right" in tokenizer_config.json'
        )
