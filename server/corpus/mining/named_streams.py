"""A seed for each name, so that one draw does not depend on the draws before it."""

from __future__ import annotations

import hashlib

__all__ = ["named_seed"]


def named_seed(name: str) -> int:
    """The seed, 64 bits, that belongs to ``name``, in every process and version alike."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little")
