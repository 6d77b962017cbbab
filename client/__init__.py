"""What runs on the user's device around the search: views of the queries typed there."""

from pocketquery.client.views.typing_noise import mistype

__all__ = ["mistype"]
