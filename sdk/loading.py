"""Open a bundle, and encode with it in one line: ``sdk.encode("query")``."""

from __future__ import annotations

import os
from _thread import allocate_lock  # threading's own, without a millisecond for the rest of it
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.installed import BUNDLE_VARIABLE, DEFAULT, KEY_VARIABLE
from pocketquery.sdk.encoder import AdapterSource, Encoder
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError, SignatureError
from pocketquery.sdk.lazy import log

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from pocketquery.sdk.arrays import NDArray
    from pocketquery.sdk.bundle.signature import Key
    from pocketquery.sdk.encoder import EncodeOptions

__all__ = [
    "load",
    "encode",
    "encode_query",
    "BUNDLE_VARIABLE",
    "KEY_VARIABLE",
    "default_encoder",
    "key_named",
]


class _Loaded:
    """The encoders the module-level functions use; the lock keeps threads from loading twice."""

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.last: Encoder | None = None
        self.named: tuple[tuple[str, str | None], Encoder] | None = None


_loaded = _Loaded()


def load(
    path: Path | str | None = None,
    *,
    adapter: AdapterSource | None = None,
    public_key: Key | None = None,
    num_threads: int = 1,
    verify_hashes: bool = True,
) -> Encoder:
    """Open a bundle, a folder or a zip, for encoding.

    Args:
        path: the bundle: a path, or the name of an installed one (:func:`sdk.bundles`). None: the
            one that ``POCKETQUERY_BUNDLE`` names, else the built-in one.
        adapter: a newer one than the bundle's own: a release, by its path or bytes, or tensors by
            name. :meth:`Encoder.swap_adapter` does the same later.
        public_key: where given, the bundle and the release must be signed by its private half
            (extra ``sign``): 32 raw bytes, 64 hexadecimal digits or the path of a PEM file.
        num_threads: threads inside one call. One is best for a query: more cost more than they
            gain below some hundred tokens.
        verify_hashes: False skips the SHA-256 of each file (its size is checked in any case).

    Raises:
        ArtifactNotFoundError: the bundle, one of its files or the adapter is not there.
        CorruptArtifactError: a file is truncated, was changed or is not as described; names it.
            The adapter is for another ``encoder.onnx``; names both.
        SpaceMismatchError: the adapter is of another space; names both.
        UnsupportedVersionError: written in a newer format version.
        SignatureError: a key is given and the signature is absent or not made by it; or the
            manifest names a key and there is no signature.
    """
    of_environment = path is None
    if path is None:
        path = os.environ.get(BUNDLE_VARIABLE) or DEFAULT
    bundle = _bundle(path, public_key, of_environment=of_environment)
    encoder = Encoder.of_bundle(
        bundle, num_threads=num_threads, verify_hashes=verify_hashes, adapter=adapter
    )
    _loaded.last = encoder
    log("debug", "loaded the encoder %s %s from %s", encoder.name, encoder.version, path)
    return encoder


def encode(sentences: str | Sequence[str], **options: Unpack[EncodeOptions]) -> NDArray[np.float32]:
    """Encode with the bundle named by the environment's ``POCKETQUERY_BUNDLE``, else the last one
    loaded, else the built-in one. Arguments, results and errors as
    :meth:`Encoder.encode`.

    Where ``POCKETQUERY_PUBLIC_KEY`` names a key too, the bundle must be signed by it.

    Raises:
        ArtifactNotFoundError: the bundle that is named is not there.
        SignatureError: a key is named and the signature is absent or not made by it.
    """
    return default_encoder().encode(sentences, **options)


def encode_query(
    sentences: str | Sequence[str], **options: Unpack[EncodeOptions]
) -> NDArray[np.float32]:
    """As :func:`encode`, with the prompt "query" where the bundle has one."""
    return default_encoder().encode_query(sentences, **options)


def key_named() -> str | None:
    """The public key that the environment's ``POCKETQUERY_PUBLIC_KEY`` names; None: it is not set.

    Raises:
        InvalidInputError: it is set and empty, so that a key that got lost on its way is noticed.
    """
    key = os.environ.get(KEY_VARIABLE)
    if key == "":
        raise InvalidInputError(
            f"{KEY_VARIABLE} is set and empty; set it to a public key (64 hexadecimal digits or "
            "the path of a PEM file), or unset it"
        )
    return key


def default_encoder() -> Encoder:
    """The encoder of :func:`encode`. Errors as there."""
    path, key = os.environ.get(BUNDLE_VARIABLE), key_named()
    if not path and _loaded.last is not None:
        return _checked(_loaded.last, key)
    named = (path or DEFAULT, key)
    with _loaded.lock:
        if _loaded.named is None or _loaded.named[0] != named:
            bundle = _bundle(named[0], key, of_environment=True)
            _loaded.named = (named, Encoder.of_bundle(bundle))
        return _loaded.named[1]


def _bundle(path: Path | str, key: Key | None, *, of_environment: bool) -> Bundle:
    try:
        return Bundle.open(path, public_key=key)
    except ArtifactNotFoundError as error:
        if of_environment and path != DEFAULT:
            raise ArtifactNotFoundError(
                f"{error}. {BUNDLE_VARIABLE} names it: set that to a bundle, or unset it"
            ) from error
        raise


def _checked(encoder: Encoder, key: str | None) -> Encoder:
    if key is None:
        return encoder
    from pocketquery.sdk.bundle.signature import key_id

    if encoder.signed_by != key_id(key):
        raise SignatureError(
            f"{KEY_VARIABLE} names the key {key_id(key)}, and the bundle {encoder.name!r} was "
            f"loaded with {encoder.signed_by or 'none'}; pass it: sdk.load(..., public_key=...)"
        )
    return encoder
