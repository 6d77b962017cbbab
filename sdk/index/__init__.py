"""The index on the device: documents, vectors, BM25, filters, and search over them."""
