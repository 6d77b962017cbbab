"""A query encoder on disk: manifest, files, hashes, signature, adapters, golden texts."""
