"""From documents to an index: read a folder, encode its passages, build."""
