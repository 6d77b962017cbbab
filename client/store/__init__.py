"""What was asked and opened on this device: kept with consent, expired, erased."""

from pocketquery.client.store.store import QueryStore

__all__ = ["QueryStore"]
