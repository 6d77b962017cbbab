"""The store of queries and opened results on a device: by consent, with expiry and erasure."""

from pocketquery.client.store.store import QueryStore

__all__ = ["QueryStore"]
