"""The adapter a bundle was shipped with, from which its federation starts."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ADAPTER_FILE
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["shipped_adapter"]


def shipped_adapter(bundle: Bundle) -> dict[str, NDArray[Any]]:
    """Its tensors by name, as the file has them.

    Raises:
        CorruptArtifactError: the file is damaged.
        InvalidInputError: the bundle has none.
    """
    if ADAPTER_FILE not in bundle:
        raise InvalidInputError(
            f"{bundle.path} has no {ADAPTER_FILE}; export it again with an adapter"
        )
    return parse(bundle.read(ADAPTER_FILE), ADAPTER_FILE)
