"""Corpora of many files, encoded and mined shard by shard, in this process or on Ray."""

from pocketquery_corpus.encoder_source import absolute_source
from pocketquery_corpus.encoding import EncodedCorpus, encode_corpus
from pocketquery_corpus.engine import Engine
from pocketquery_corpus.indexing import build_encoded_index

__all__ = ["EncodedCorpus", "Engine", "absolute_source", "build_encoded_index", "encode_corpus"]
