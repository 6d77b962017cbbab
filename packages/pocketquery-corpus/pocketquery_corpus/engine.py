"""The loop over shards: which parts are missing, and an engine that makes them.

What is done to a shard depends on the shard and the work alone, so every engine leaves the same
bytes, whatever the order and however often it was killed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.indexing.options import names_engine
from pocketquery.sdk.progress import Progress
from pocketquery_corpus.parts import ShardPart

__all__ = ["Engine", "EngineName", "Work", "chosen_engine", "run_parts"]

EngineName: TypeAlias = Literal["local", "ray"]


class Work(Protocol):
    """What is done to shards: settings alone, which workers get as they are."""

    def open(self) -> Callable[[ShardPart], None]:
        """What makes a part of its shard; what is heavy is loaded here, once a worker.

        It publishes the part's folder in one step, and raises errors of ours where a shard is bad.
        """


@dataclass(frozen=True)
class Engine:
    """Where the work is done.

    Attributes:
        name: "local", in this process, or "ray": in worker processes (the package's extra "ray").
        workers: how many, of Ray; None for a processor each.
        address: of a Ray cluster that shares the files; None for one of its own on this machine.
    """

    name: EngineName = "local"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in get_args(EngineName):
            raise InvalidInputError(f"the engine is {self.name!r}, expected local or ray")
        if self.workers is not None and self.workers < 1:
            raise InvalidInputError(f"workers is {self.workers}, expected at least 1")
        if self.name == "local" and (self.workers is not None or self.address is not None):
            raise InvalidInputError(
                "workers and address are the Ray engine's; name it, or leave them out"
            )


def chosen_engine(arguments: argparse.Namespace) -> Engine | None:
    """The engine that the options of :func:`~pocketquery.sdk.indexing.options.add_engine` name;
    None where they name none.

    Raises:
        InvalidInputError: options that do not go together.
    """
    if not names_engine(arguments):
        return None
    return Engine(arguments.engine, arguments.workers, arguments.ray_address)


def run_parts(
    parts: Sequence[ShardPart], work: Work, engine: Engine, label: str, *, show: bool = False
) -> int:
    """Make the parts that are missing; how many an earlier run had made.

    Args:
        parts: of :func:`~pocketquery_corpus.parts.open_parts`.
        work: what makes one.
        engine: where.
        label: what is done, for the progress bar.
        show: shards done, rate and time left, on stderr.

    Raises:
        CorpusError: a shard is bad; the parts of others that were finished stay.
        MissingExtraError: Ray is not installed.
        PocketQueryError: Ray's workers ended again and again.
    """
    undone = [one for one in parts if not one.done]
    with Progress(len(parts), label, "shard", done=len(parts) - len(undone), show=show) as bar:
        for _ in _made(undone, work, engine) if undone else ():
            bar.update()
    return len(parts) - len(undone)


def _made(parts: Sequence[ShardPart], work: Work, engine: Engine) -> Iterator[int]:
    """The numbers of parts as they are made."""
    if engine.name == "ray":
        from pocketquery_corpus.ray_engine import run_on_ray

        yield from run_on_ray(parts, work, engine.workers, engine.address)
        return
    make = work.open()
    for part in parts:
        make(part)
        yield part.number
