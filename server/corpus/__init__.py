"""Reading corpora into groups of texts, keeping them on disk, and cutting text into sentences."""

from pocketquery.server.corpus.groups import Group, GroupList, Kind, Source
from pocketquery.server.corpus.new_tokenizer import TokenizerConfig, train_tokenizer
from pocketquery.server.corpus.readers.collection import (
    Collection,
    CollectionFiles,
    find_files,
    read_collection,
)
from pocketquery.server.corpus.readers.documents import read_documents
from pocketquery.server.corpus.readers.judgements import Judgements, read_judgements, read_pairs
from pocketquery.server.corpus.readers.passages import Passages
from pocketquery.server.corpus.readers.queries import Query, read_queries
from pocketquery.server.corpus.readers.reading import ReadOptions, open_source, read_groups
from pocketquery.server.corpus.readers.tables import Columns
from pocketquery.server.corpus.store_writer import write_text_store
from pocketquery.server.corpus.text import split_sentences
from pocketquery.server.corpus.text_store import TextStore
from pocketquery.server.corpus.tokenizer_report import report_tokenizer

__all__ = [
    "read_documents",
    "read_queries",
    "read_judgements",
    "read_pairs",
    "read_collection",
    "find_files",
    "split_sentences",
    "Collection",
    "CollectionFiles",
    "Judgements",
    "Query",
    "Group",
    "GroupList",
    "Kind",
    "Source",
    "TextStore",
    "write_text_store",
    "Passages",
    "open_source",
    "read_groups",
    "ReadOptions",
    "Columns",
    "TokenizerConfig",
    "train_tokenizer",
    "report_tokenizer",
]
