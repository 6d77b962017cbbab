"""Messages that say which they are: format, version, tensors, and a body of JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from pocketquery.sdk.bundle.safetensors import parse_whole, serialize
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.fields import Fields

__all__ = ["WireFormat"]


class WireFormat(NamedTuple):
    """One kind of message.

    Attributes:
        name: its ``format``.
        source: how errors call it.
        peers: who speaks it; of two versions the older is to be upgraded.
        version: the one that is written and read.
    """

    name: str
    source: str
    peers: str = "server and gateway"
    version: str = "1"

    @property
    def labels(self) -> dict[str, str]:
        """Format and version, as a message has them."""
        return {"format": self.name, "version": self.version}

    def check(self, values: Mapping[str, Any]) -> None:
        """See that ``values`` have the labels of this kind.

        Raises:
            CorruptArtifactError: of another kind or version.
        """
        if any(values.get(name) != label for name, label in self.labels.items()):
            raise CorruptArtifactError(
                f"{self.source}: found format {values.get('format')!r:.80}, version "
                f"{values.get('version')!r:.80}; expected {self.name!r}, version "
                f"{self.version!r}. Upgrade the older of {self.peers}"
            )

    def serialize(self, tensors: Mapping[str, NDArray[Any]], body: str = "{}") -> bytes:
        """One safetensors file with the JSON ``body`` in its metadata; equal ones, equal bytes."""
        return serialize(tensors, self.labels | {"body": body})

    def parse(
        self, data: bytes, *, most_bytes: int = 1 << 20
    ) -> tuple[dict[str, NDArray[Any]], Fields]:
        """The tensors and the body that :meth:`serialize` wrote, of at most ``most_bytes``.

        Raises:
            CorruptArtifactError: another kind, another version, or damaged.
        """
        tensors, metadata = parse_whole(data, self.source)
        self.check(metadata)
        body = metadata.get("body", "").encode()
        return tensors, Fields.of_json(body, self.source, most_bytes=most_bytes)
