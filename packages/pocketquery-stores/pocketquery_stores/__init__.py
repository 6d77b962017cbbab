"""An index's vectors for servers: files (Parquet, FAISS), Postgres with pgvector, Qdrant."""

from pocketquery_stores.files import export_vectors
from pocketquery_stores.postgres import sync_postgres
from pocketquery_stores.qdrant import sync_qdrant
from pocketquery_stores.sync import SyncReport

__all__ = ["SyncReport", "export_vectors", "sync_postgres", "sync_qdrant"]
