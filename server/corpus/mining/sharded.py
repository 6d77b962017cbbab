"""Mine shard by shard: each shard gives a store of its own, and they are joined at the end.

The groups come in the order of the shards, as if they had been read one after the other.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pocketquery.sdk.indexing.options import print_skipped
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.corpus.mining.inputs import named_groups, named_input, named_reading
from pocketquery.server.corpus.readers.reading import ReadOptions, read_numbered
from pocketquery.server.corpus.shards.engine import chosen_engine, run_parts
from pocketquery.server.corpus.shards.listing import list_shards
from pocketquery.server.corpus.shards.parts import ShardPart, open_parts
from pocketquery.server.corpus.store_writer import write_text_store
from pocketquery.server.corpus.text_store import TextStore

__all__ = ["Mine", "unchanged", "mined_groups"]

Mine: TypeAlias = Callable[[Iterable[Group]], Iterable[Group]]


def unchanged(groups: Iterable[Group]) -> Iterable[Group]:
    """The :data:`Mine` of a store."""
    return groups


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
def mined_groups(
    arguments: argparse.Namespace, output: Path, mine: Mine, made: Kind, settings: str
) -> Iterator[Iterable[Group]]:
    """Yield what ``mine`` makes of the groups that the command line names.

    With ``--engine``, what was made of each shard is kept beside ``output`` until the caller is
    done: a killed run goes on with the shards that are missing.

    Args:
        arguments: of :func:`~pocketquery.server.corpus.mining.inputs.add_inputs` and
            :func:`~pocketquery.sdk.indexing.options.add_engine`.
        output: what is written of them.
        mine: from groups to groups, one after the other; workers get it pickled.
        made: the kind that it makes.
        settings: what ``mine`` depends on: parts of other settings are made anew.

    Raises:
        InvalidInputError, CorpusError, ArtifactError, MissingExtraError: as
            :func:`~pocketquery.server.corpus.shards.engine.run_parts` and the readers do.
    """
    engine = chosen_engine(arguments)
    if engine is None:
        yield mine(named_groups(arguments)[1])
        return
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
