"""An index's documents in databases that search by vectors: Postgres with pgvector, Qdrant."""

from pocketquery_stores.postgres import sync_postgres
from pocketquery_stores.qdrant import sync_qdrant
from pocketquery_stores.sync import SyncReport

__all__ = ["SyncReport", "sync_postgres", "sync_qdrant"]
