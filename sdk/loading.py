"""Opening a bundle, and the one-line surface ``sdk.encode("query")`` over the opened one."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.encoder import AdapterSource, Encoder
from pocketquery.sdk.errors import ArtifactNotFoundError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["load", "encode", "encode_query", "BUNDLE_VARIABLE"]

BUNDLE_VARIABLE = "POCKETQUERY_BUNDLE"


class _Opened:
    """The encoders the module-level functions use; the lock keeps threads from loading twice."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last: Encoder | None = None
        self.named: tuple[str, Encoder] | None = None


_opened = _Opened()


def load(
    path: Path | str,
    *,
    adapter: AdapterSource | None = None,
    public_key: Key | None = None,
    num_threads: int = 1,
    verify_hashes: bool = True,
) -> Encoder:
    """Open a bundle, a folder or a zip, for encoding.

    Args:
        path: the bundle.
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
        SignatureError: a key is given and the signature is absent or not made by it.
    """
    bundle = Bundle.open(path, public_key=public_key)
    encoder = Encoder.of_bundle(
        bundle,
        num_threads=num_threads,
        verify_hashes=verify_hashes,
        adapter=adapter,
        public_key=public_key,
    )
    _opened.last = encoder
    return encoder


def encode(
    sentences: str | Sequence[str], *, prompt_name: str | None = None, prompt: str | None = None
) -> NDArray[np.float32]:
    """Encode with the bundle named by the environment's ``POCKETQUERY_BUNDLE``, else the last one
    loaded. Arguments, results and errors as :meth:`Encoder.encode`.

    Raises:
        ArtifactNotFoundError: no bundle is named and none was loaded.
    """
    return _encoder().encode(sentences, prompt_name=prompt_name, prompt=prompt)


def encode_query(
    sentences: str | Sequence[str], *, prompt_name: str | None = None, prompt: str | None = None
) -> NDArray[np.float32]:
    """As :func:`encode`, with the prompt "query" where the bundle has one."""
    return _encoder().encode_query(sentences, prompt_name=prompt_name, prompt=prompt)


def _encoder() -> Encoder:
    path = os.environ.get(BUNDLE_VARIABLE)
    if not path:
        if _opened.last is None:
            raise ArtifactNotFoundError(
                f"no bundle is open: {BUNDLE_VARIABLE} is not set and nothing was loaded. Set it "
                'to a bundle\'s path, or call pocketquery.sdk.load("path/of/bundle") first'
            )
        return _opened.last
    with _opened.lock:
        if _opened.named is None or _opened.named[0] != path:
            bundle = Bundle.open(path)
            _opened.named = (path, Encoder.of_bundle(bundle))
        return _opened.named[1]
