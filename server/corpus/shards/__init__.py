"""Corpora of many files, worked on shard by shard in this process or on Ray."""
