"""The client of federated rounds: whether a device takes part, and what it sends."""

from pocketquery.client.views.typing_noise import mistype

__all__ = ["mistype"]
