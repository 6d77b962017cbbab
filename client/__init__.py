"""Around the search on the user's device: whether to take part in rounds, and what is sent."""

from pocketquery.client.views.typing_noise import mistype

__all__ = ["mistype"]
