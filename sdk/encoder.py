"""The query encoder: text in, vector out, in the space of the documents' teacher.

Arguments and results follow sentence-transformers' ``SentenceTransformer.encode``.

Its adapter can be swapped while other threads encode. A call encodes with one object, which it
takes once and a swap replaces by one assignment. So each call sees the old adapter or the new one,
without a lock. The old session is freed when the last call with it is over.
"""

from __future__ import annotations

import os
from _thread import allocate_lock  # threading's own, without a millisecond for the rest of it
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict, Unpack

import numpy as np

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import Manifest
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, SignatureError
from pocketquery.sdk.graph import Graph
from pocketquery.sdk.languages.scripts import has_unread_letters
from pocketquery.sdk.lazy import collection_paused
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer, open_tokenizer
from pocketquery.sdk.validation import check_count, check_text, check_texts

if TYPE_CHECKING:
    from pathlib import Path

    from pocketquery.sdk.arrays import NDArray, Tensors
    from pocketquery.sdk.bundle.adapter import AdapterRelease
    from pocketquery.sdk.bundle.signature import Key

__all__ = ["AdapterSource", "EncodeOptions", "Encoder"]

AdapterSource: TypeAlias = "Path | str | bytes | AdapterRelease | Tensors"
"""A release by its path or its bytes, or read and checked already, or tensors by name."""

_QUERY, _DOCUMENT = "query", "document"
_LEAST_NORM = 1e-12  # torch.nn.functional.normalize's


class _Adapter(NamedTuple):
    """Tensors for the graph, and the version of the encoder that they make."""

    tensors: Tensors
    version: str


class _Serving(NamedTuple):
    """What a call encodes with."""

    graph: Graph
    version: str


class EncodeOptions(TypedDict, total=False):
    """The arguments of :meth:`Encoder.encode` beside the texts, for what hands them on."""

    prompt_name: str | None
    prompt: str | None
    batch_size: int
    show_progress_bar: bool
    normalize_embeddings: bool
    truncate_dim: int | None


class Encoder:
    """A loaded query encoder; made by :func:`pocketquery.sdk.load`. Safe to use from threads.

    It can be copied and pickled, whole: another process or machine needs no file of the bundle.
    """

    def __init__(
        self,
        manifest: Manifest,
        tokenizer: Tokenizer,
        serving: _Serving,
        own_adapter: Tensors,
        public_key: bytes | None,
    ) -> None:
        self._manifest = manifest
        self._tokenizer = tokenizer
        self._serving = serving
        self._own_adapter = own_adapter
        self._public_key = public_key
        self._swapping = allocate_lock()

    @classmethod
    @collection_paused()
    def of_bundle(
        cls,
        bundle: Bundle,
        *,
        num_threads: int = 1,
        verify_hashes: bool = True,
        adapter: AdapterSource | None = None,
        public_key: Key | None = None,
    ) -> Encoder:
        """The encoder in ``bundle``. Arguments and errors as :func:`pocketquery.sdk.load`; without
        a key, the one the bundle was opened with, if any, counts."""
        if public_key is not None:
            bundle = bundle.checked_by(public_key)
        public_key = bundle.public_key
        manifest = bundle.manifest
        own = bundle.adapter(verify_hash=verify_hashes)
        chosen = _Adapter(own, manifest.encoder_version)
        if adapter is not None:
            chosen = _resolved(adapter, manifest, public_key)
        tokenizer = open_tokenizer(
            manifest.tokenizer.kind,
            bundle.read(manifest.tokenizer.file, verify_hash=verify_hashes),
            manifest.max_length,
            manifest.tokenizer.options,
        )
        graph = Graph(
            bundle.model(verify_hash=verify_hashes),
            adapter=chosen.tensors,
            dimension=manifest.space.dimension,
            max_length=manifest.max_length,
            num_threads=num_threads,
            source=os.fspath(bundle.storage),
        )
        if adapter is not None:
            _check_complete(chosen, graph, manifest)
        serving = _Serving(graph, chosen.version)
        return cls(manifest, tokenizer, serving, own, public_key)

    @property
    def manifest(self) -> Manifest:
        """The whole manifest of the bundle."""
        return self._manifest

    @property
    def signed_by(self) -> str | None:
        """The id of the key the bundle's signature was checked with; None where no key was given,
        whatever the manifest says (``manifest.signature_key_id``)."""
        if self._public_key is None:
            return None
        from pocketquery.sdk.bundle.signature import key_id

        return key_id(self._public_key)

    @property
    def name(self) -> str:
        """The bundle's name."""
        return self._manifest.name

    @property
    def version(self) -> str:
        """The encoder's version within its space: the adapter's, where one was given; with
        tensors that are no release, the bundle's followed by ``+local``."""
        return self._serving.version

    @property
    def adapter(self) -> dict[str, NDArray[np.float32]]:
        """Copies of the adapter's tensors, by name; empty where the bundle brings no adapter."""
        return self._serving.graph.adapter

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

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages that it was made for; none where its bundle does not say."""
        return self._manifest.languages

    def reads(self, text: str) -> bool:
        """Whether the vector of ``text`` says anything; a hybrid search goes by words alone else.

        A quarter of its letters are in words of scripts that the encoder's languages are not
        written in, or over half of its tokens are unknown, or it has none: then it is not read.
        Languages of one script are not told apart. Errors as of :meth:`tokenize`.
        """
        is_plain = not self.languages or check_text(text).isascii()
        if not is_plain and has_unread_letters(text, self.languages):
            return False
        unknown, ids = self._tokenizer.unknown_id, self.tokenize(text)
        tokens = len(ids) - len(self._tokenizer.encode(""))
        return tokens > 0 and 2 * ids.count(unknown) <= tokens

    def __repr__(self) -> str:
        languages = ", ".join(self.languages) or "unknown"
        return (
            f"Encoder(name={self.name!r}, version={self.version!r}, languages={languages!r}, "
            f"dimension={self.dimension}, max_length={self.max_length}, "
            f"space_id={self.space_id!r})"
        )

    def __reduce__(self) -> tuple[Callable[..., Encoder], tuple[object, ...]]:
        values = self._tokenizer, self._serving, self._own_adapter, self._public_key
        return _encoder_again, (self._manifest.to_json(), *values)

    def swap_adapter(self, adapter: AdapterSource | None, *, public_key: Key | None = None) -> None:
        """Encode with another adapter from now on; what is being encoded ends with the old one.

        Vectors are then equal, to the bit, to those of a bundle loaded with that adapter. Calls of
        other threads are not held up; for the moment of the change two sessions are in memory.

        Args:
            adapter: a release, by its path or bytes; one that
                :class:`pocketquery.client.trusted_releases.TrustedReleases` gave; tensors by name,
                float16 or float32; or None for the bundle's own. Tensors in memory carry no
                signature, so none is checked. An older release than the present one is as good as
                any: what must not be replayed goes through ``TrustedReleases``.
            public_key: where given, the release must be signed by its private half; without it,
                the key the bundle was loaded with, if any, counts.

        Raises:
            ArtifactNotFoundError: no release is at the path.
            CorruptArtifactError: the release was changed or is for another ``encoder.onnx``; a
                tensor is missing, unknown, of another shape or type, or not finite.
            UnsupportedVersionError: the release is of a newer format version.
            SpaceMismatchError: the release is of another space.
            SignatureError: a key counts and the release is not signed by it.

        After an error the adapter is the one it was.
        """
        with self._swapping:  # one swap at a time; encoding knows nothing of it
            chosen = _Adapter(self._own_adapter, self._manifest.encoder_version)
            present = self._serving.graph
            if adapter is not None:
                key = self._public_key if public_key is None else public_key
                chosen = _resolved(adapter, self._manifest, key)
                _check_complete(chosen, present, self._manifest)
            self._serving = _Serving(present.with_adapter(chosen.tensors), chosen.version)

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
        graph = self._serving.graph  # once: every text of a call goes through the same adapter
        if isinstance(sentences, str):
            vector = self._embed(graph, before + check_text(sentences))
            return vector if truncate_dim is None else _cut(vector, dimension, normalize_embeddings)
        texts = check_texts(sentences)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        waiting: Iterable[str] = texts
        if show_progress_bar:
            from pocketquery.sdk.progress import progress

            waiting = progress(texts, "encode")
        for row, text in enumerate(waiting):
            vectors[row] = self._embed(graph, before + text)
        return vectors if truncate_dim is None else _cut(vectors, dimension, normalize_embeddings)

    def encode_query(
        self, sentences: str | Sequence[str], **options: Unpack[EncodeOptions]
    ) -> NDArray[np.float32]:
        """As :meth:`encode`, with the manifest's prompt "query" unless another is asked for."""
        is_named = options.get("prompt_name") is not None or options.get("prompt") is not None
        if not is_named and _QUERY in self._manifest.prompts:
            options["prompt_name"] = _QUERY
        return self.encode(sentences, **options)

    def encode_document(
        self, sentences: str | Sequence[str], *, show_progress_bar: bool = False
    ) -> NDArray[np.float32]:
        """As :meth:`encode`, with the manifest's prompt "document" where it has one.

        For a device that indexes its own texts: the encoder is made for queries, and documents
        that the heavy encoder encoded are found more often.
        """
        name = _DOCUMENT if _DOCUMENT in self._manifest.prompts else None
        return self.encode(sentences, prompt_name=name, show_progress_bar=show_progress_bar)

    def tokenize(self, text: str) -> list[int]:
        """The token ids of ``text``, special tokens included, at most ``max_length``; no prompt.

        Raises:
            InvalidInputError: not a text, or a lone surrogate.
        """
        return self._tokenizer.encode(check_text(text))

    def _embed(self, graph: Graph, text: str) -> NDArray[np.float32]:
        return graph.embed(self._tokenizer.encode(text))

    def _prompt(self, prompt_name: str | None, prompt: str | None) -> str:
        if prompt is not None:
            return check_text(prompt, "the prompt")
        name = self._manifest.default_prompt_name if prompt_name is None else prompt_name
        if name is None:
            return ""
        prompt_text = self._manifest.prompts.get(name) if isinstance(name, str) else None
        if prompt_text is None:
            known = ", ".join(map(repr, sorted(self._manifest.prompts))) or "none"
            raise InvalidInputError(
                f"prompt_name is {name!r}, the bundle {self.name!r} knows: {known}; "
                "pass one of them, or the prompt itself as prompt="
            )
        return prompt_text

    def _checked_dimension(self, truncate_dim: int | None, batch_size: int) -> int:
        check_count(batch_size, "batch_size")
        if truncate_dim is None:
            return self.dimension
        return check_count(truncate_dim, "truncate_dim", most=self.dimension)


def _encoder_again(
    manifest: bytes,
    tokenizer: Tokenizer,
    serving: _Serving,
    own_adapter: Tensors,
    public_key: bytes | None,
) -> Encoder:
    return Encoder(Manifest.from_json(manifest), tokenizer, serving, own_adapter, public_key)


def _resolved(adapter: AdapterSource, manifest: Manifest, public_key: Key | None) -> _Adapter:
    if isinstance(adapter, Mapping):
        return _Adapter(adapter, f"{manifest.encoder_version}+local")
    # Here: half a millisecond, which a bundle without a release starts sooner.
    from pocketquery.sdk.bundle.adapter import AdapterRelease, read_adapter

    if isinstance(adapter, AdapterRelease):
        name = f"release {adapter.version}"
        adapter.check_belongs(manifest, name, "fetch the adapter of this bundle")
        if public_key is not None and adapter.signed_by is None:
            from pocketquery.sdk.bundle.signature import key_id

            raise SignatureError(
                f"{name}: read without a key, expected one whose signature was checked, as the "
                f"bundle's was with {key_id(public_key)}; read it with that key"
            )
        return _Adapter(adapter.tensors, adapter.version)
    if isinstance(adapter, (bytes, str, os.PathLike)):
        release = read_adapter(adapter, manifest=manifest, public_key=public_key)
        return _Adapter(release.tensors, release.version)
    raise InvalidInputError(
        f"adapter is a {type(adapter).__name__}, expected a release's path or bytes, or tensors "
        "by name"
    )


def _check_complete(adapter: _Adapter, graph: Graph, manifest: Manifest) -> None:
    missing = sorted(graph.adapter_names - set(adapter.tensors))
    if missing:  # the graph's defaults would take their place, which belong to another training
        raise CorruptArtifactError(
            f"the adapter, version {adapter.version}, lacks the tensors {', '.join(missing)}; the "
            f"encoder of the bundle {manifest.name!r} expects all of them"
        )


def _cut(vectors: NDArray[np.float32], dimension: int, normalize: bool) -> NDArray[np.float32]:
    cut = vectors[..., :dimension]
    if not normalize:
        return cut.copy()
    norms = np.linalg.norm(cut, axis=-1, keepdims=True)
    normalized: NDArray[np.float32] = cut / np.maximum(norms, _LEAST_NORM)
    return normalized
