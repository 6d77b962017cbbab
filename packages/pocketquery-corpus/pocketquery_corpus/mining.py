"""Mine shard by shard: the entry point ``mining`` of the group ``pocketquery.corpora``.

Each shard gives a store of its own, and they are joined in the order of the shards, as if they had
been read one after the other.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pocketquery.sdk.indexing.options import print_skipped
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.corpus.listing import list_shards
from pocketquery.server.corpus.mining.inputs import Mine, named_input, named_reading
from pocketquery.server.corpus.readers.reading import ReadOptions, read_numbered
from pocketquery.server.corpus.store_writer import write_text_store
from pocketquery.server.corpus.text_store import TextStore
from pocketquery_corpus.engine import Engine, chosen_engine, run_parts
from pocketquery_corpus.parts import ShardPart, open_parts

__all__ = ["mined_shards"]


@dataclass(frozen=True)
class _Mining:
    """The work: a shard's groups, and what is made of them as a store."""

    kind: Kind
    reading: ReadOptions
    alone: bool
    mine: Mine
    made: Kind

    def open(self) -> Callable[[ShardPart], None]:
        return self._make

    def _make(self, part: ShardPart) -> None:
        number = None if self.alone else part.number
        groups = read_numbered(part.source, self.kind, self.reading, number)
        write_text_store(part.folder, self.mine(groups), self.made)


@contextlib.contextmanager
def mined_shards(
    arguments: argparse.Namespace, output: Path, mine: Mine, made: Kind, settings: str
) -> Iterator[Iterable[Group]]:
    """:func:`~pocketquery.server.corpus.mining.inputs.mined_groups` with ``--engine``.

    What was made of each shard is kept beside ``output`` until the caller is done: a killed run
    goes on with the shards that are missing.

    Raises:
        InvalidInputError, CorpusError, ArtifactError, MissingExtraError: as
            :func:`~pocketquery_corpus.engine.run_parts` and the readers do.
    """
    engine = chosen_engine(arguments) or Engine()
    kind, paths = named_input(arguments)
    reading = named_reading(arguments)
    skipped = list[tuple[str, str]]()
    shards = list_shards(paths, lambda path, why: skipped.append((path, why)))
    print_skipped(skipped)
    alone = len(shards) == 1  # its groups keep their ids
    work = _Mining(kind, reading, alone, mine, made)
    of = repr((kind, reading, alone, settings))
    with open_parts(output, shards, {"made": made, "of": of}) as parts:
        run_parts(parts, work, engine, "mine", show=True)
        stores = (TextStore.open(part.folder) for part in parts)
        yield (store[row] for store in stores for row in range(len(store)))
