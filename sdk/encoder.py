"""The query encoder: text in, vector out, in the space of the documents' teacher.

Arguments and results follow sentence-transformers' ``SentenceTransformer.encode``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.bundle import Bundle
from pocketquery.sdk.counts import check_count
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.graph import Graph
from pocketquery.sdk.manifest import ADAPTER_FILE, ENCODER_FILE, Manifest
from pocketquery.sdk.progress import progress
from pocketquery.sdk.safetensors import parse
from pocketquery.sdk.texts import check_text, check_texts
from pocketquery.sdk.tokenizer import Tokenizer, open_tokenizer

__all__ = ["Encoder"]

_QUERY = "query"
_LEAST_NORM = 1e-12  # torch.nn.functional.normalize's


class Encoder:
    """A loaded query encoder; made by :func:`pocketquery.sdk.load`. Safe to use from threads."""

    def __init__(self, manifest: Manifest, tokenizer: Tokenizer, graph: Graph) -> None:
        self._manifest = manifest
        self._tokenizer = tokenizer
        self._graph = graph

    @classmethod
    def of_bundle(
        cls, bundle: Bundle, *, num_threads: int = 1, verify_hashes: bool = True
    ) -> Encoder:
        """The encoder in ``bundle``. Arguments and errors as :func:`pocketquery.sdk.load`."""
        manifest = bundle.manifest
        adapter = (
            parse(bundle.read(ADAPTER_FILE, verify_hash=verify_hashes), ADAPTER_FILE)
            if ADAPTER_FILE in bundle
            else {}
        )
        tokenizer = open_tokenizer(
            manifest.tokenizer.kind,
            bundle.read(manifest.tokenizer.file, verify_hash=verify_hashes),
            manifest.max_length,
            manifest.tokenizer.options,
        )
        graph = Graph(
            bundle.read(ENCODER_FILE, verify_hash=verify_hashes),
            adapter=adapter,
            dimension=manifest.space.dimension,
            max_length=manifest.max_length,
            num_threads=num_threads,
            source=str(bundle.path),
        )
        return cls(manifest, tokenizer, graph)

    @property
    def manifest(self) -> Manifest:
        """The whole manifest of the bundle."""
        return self._manifest

    @property
    def name(self) -> str:
        """The bundle's name."""
        return self._manifest.name

    @property
    def version(self) -> str:
        """The encoder's version within its space."""
        return self._manifest.encoder_version

    @property
    def space_id(self) -> str:
        """The id of the vector space; an index must carry the same."""
        return self._manifest.space.id

    @property
    def dimension(self) -> int:
        """The number of dimensions of a vector."""
        return self._manifest.space.dimension

    @property
    def max_length(self) -> int:
        """The most token ids of a text, special tokens included; what is beyond is cut off."""
        return self._manifest.max_length

    def __repr__(self) -> str:
        return (
            f"Encoder(name={self.name!r}, version={self.version!r}, dimension={self.dimension}, "
            f"space_id={self.space_id!r})"
        )

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool = False,
        normalize_embeddings: bool = True,
        truncate_dim: int | None = None,
    ) -> NDArray[np.float32]:
        """Encode one text or a list of them.

        Each text goes through the graph alone and unpadded, so ``encode([a, b])[0]`` equals
        ``encode(a)`` to the bit. An empty or blank text gives the vector of the special tokens
        alone; a text longer than ``max_length`` ids is cut off.

        Args:
            sentences: one text, or a sequence of texts (it may be empty).
            prompt_name: which of the manifest's prompts to put before each text; None takes the
                manifest's default, where it names one.
            prompt: a prompt itself; wins over ``prompt_name``.
            batch_size: accepted for the habit's sake; it changes neither result nor speed.
            show_progress_bar: a bar on stderr.
            normalize_embeddings: whether a truncated vector is normalised again. A whole one is
                normalised in either case: that is the last step of the graph.
            truncate_dim: keep the first so many dimensions.

        Returns:
            float32, (dimension,) for a text and (n, dimension) for a sequence of n.

        Raises:
            InvalidInputError: not a text (names the index in the list), a lone surrogate (names
                its position), an unknown prompt, or a number out of range.
        """
        dimension = self._checked_dimension(truncate_dim, batch_size)
        before = self._prompt(prompt_name, prompt)
        if isinstance(sentences, str):
            vector = self._embed(before + check_text(sentences))
            return vector if truncate_dim is None else _cut(vector, dimension, normalize_embeddings)
        texts = check_texts(sentences)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(progress(texts, "encode", show=show_progress_bar)):
            vectors[row] = self._embed(before + text)
        return vectors if truncate_dim is None else _cut(vectors, dimension, normalize_embeddings)

    def encode_query(
        self,
        sentences: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool = False,
        normalize_embeddings: bool = True,
        truncate_dim: int | None = None,
    ) -> NDArray[np.float32]:
        """As :meth:`encode`, with the manifest's prompt "query" unless another is asked for."""
        if prompt_name is None and prompt is None and _QUERY in self._manifest.prompts:
            prompt_name = _QUERY
        return self.encode(
            sentences,
            prompt_name=prompt_name,
            prompt=prompt,
            batch_size=batch_size,
            show_progress_bar=show_progress_bar,
            normalize_embeddings=normalize_embeddings,
            truncate_dim=truncate_dim,
        )

    def tokenize(self, text: str) -> list[int]:
        """The token ids of ``text``, special tokens included, at most ``max_length``; no prompt.

        Raises:
            InvalidInputError: not a text, or a lone surrogate.
        """
        return self._tokenizer.encode(check_text(text))

    def _embed(self, text: str) -> NDArray[np.float32]:
        return self._graph.embed(self._tokenizer.encode(text))

    def _prompt(self, prompt_name: str | None, prompt: str | None) -> str:
        if prompt is not None:
            return check_text(prompt, "the prompt")
        name = self._manifest.default_prompt_name if prompt_name is None else prompt_name
        if name is None:
            return ""
        found = self._manifest.prompts.get(name) if isinstance(name, str) else None
        if found is None:
            known = ", ".join(map(repr, sorted(self._manifest.prompts))) or "none"
            raise InvalidInputError(
                f"prompt_name is {name!r}, the bundle {self.name!r} knows: {known}; "
                "pass one of them, or the prompt itself as prompt="
            )
        return found

    def _checked_dimension(self, truncate_dim: int | None, batch_size: int) -> int:
        check_count(batch_size, "batch_size")
        if truncate_dim is None:
            return self.dimension
        return check_count(truncate_dim, "truncate_dim", most=self.dimension)


def _cut(vectors: NDArray[np.float32], dimension: int, normalize: bool) -> NDArray[np.float32]:
    cut = vectors[..., :dimension]
    if not normalize:
        return cut.copy()
    norms = np.linalg.norm(cut, axis=-1, keepdims=True)
    normalized: NDArray[np.float32] = cut / np.maximum(norms, _LEAST_NORM)
    return normalized
