"""The changes that attacks, noise and poisoning are measured on: 200 users, each trained twice.

    python benchmarks/private_changes.py [--bundle demo/bundle] [--index demo/index] [--data FOLDER]

Half of the users ask CLINC150's requests, ten each of four intents; half ask questions on one
article of SQuAD. No query is asked by two. Each user is trained from the release by the client's
own code and settings, and once more with another seed: what an attacker computes who has the
release, the index, the settings and the user's queries, but not the user's coins. Every change is
kept in ``runs/private_changes`` when it is made: killed and started again, it goes on with the
next.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from data_files import rows
from numpy.typing import NDArray
from quality_sets import data_folder

from pocketquery import sdk
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.store.store import Example
from pocketquery.client.training.prototypes import PrototypeSource
from pocketquery.client.training.step import LocalStep
from pocketquery.client.training.training import train_locally
from pocketquery.client.transforms import Clip
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.safetensors import parse, serialize
from pocketquery.sdk.files import write_atomic
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_demo.corpus import article, read_demo_corpus

__all__ = [
    "LOCAL",
    "ROOT",
    "SEED",
    "Bank",
    "Fleet",
    "User",
    "add_arguments",
    "clipped",
    "open_fleet",
    "read_users",
]


ROOT = Path(__file__).resolve().parents[2]
USERS = 200
QUERIES = 40  # a user's
INTENTS = 4
SEED = 17
LOCAL = LocalConfig()


@dataclass(frozen=True)
class User:
    """One device.

    Attributes:
        name: ``clinc-7`` or ``squad-7``.
        topics: the intents, or the article.
        queries: what was asked on it.
        others: queries on the same topics that nobody asked: the hardest to tell from its own.
    """

    name: str
    topics: Sequence[str]
    queries: Sequence[str]
    others: Sequence[str]


class Fleet:
    """Devices that hold one bundle and one index, and the flat vectors of what they send.

    Args:
        bundle: path of a bundle with a training step.
        index: path of an index in its space.
    """

    def __init__(self, bundle: Path, index: Path) -> None:
        self.bundle = Bundle.open(bundle)
        self.encoder = sdk.load(bundle)
        self.step = LocalStep.open(self.bundle)
        self.index = sdk.open_index(index, encoder=self.encoder)
        self.state = FederationState.of_bundle(self.bundle)
        self.release = self.flat(self.state.adapter)
        self.name = self.state.encoder_sha256[:12]

    def change(
        self,
        queries: Sequence[str],
        seed: int,
        *,
        config: LocalConfig = LOCAL,
        adapter: Mapping[str, Floats] | None = None,
        documents: PrototypeSource | None = None,
    ) -> Floats:
        """What a device with these queries sends before clipping, float32 (d,).

        Raises:
            RuntimeError: the monitors stopped the training.
        """
        done = train_locally(
            self.encoder,
            self.step,
            [Example(query) for query in queries],
            self.index if documents is None else documents,
            adapter=self.state.adapter if adapter is None else adapter,
            config=config,
            seed=seed,
        )
        if done.stopped:
            raise RuntimeError(f"the training was stopped: {done.stopped}")
        return self.flat(done.change)

    @staticmethod
    def flat(tensors: Mapping[str, NDArray[np.floating]]) -> Floats:
        """The tensors one after another in the order of their names, as the rounds add them."""
        return np.concatenate([tensors[n].ravel() for n in sorted(tensors)]).astype(np.float32)

    def tensors(self, values: NDArray[np.floating]) -> dict[str, Floats]:
        """The inverse of :meth:`flat`."""
        found, start = {}, 0
        for name in sorted(self.state.adapter):
            like = self.state.adapter[name]
            found[name] = values[start : start + like.size].reshape(like.shape).astype(np.float32)
            start += like.size
        return found

    @cached_property
    def is_up(self) -> NDArray[np.bool_]:
        """Which of the values belong to ``up`` tensors, (d,)."""
        adapter = self.state.adapter
        return np.concatenate([np.full(adapter[n].size, ".up" in n) for n in sorted(adapter)])

    def moved(self, change: NDArray[np.floating]) -> dict[str, Floats]:
        """The release's tensors with ``change`` added."""
        return self.tensors(self.release + change)


class Bank:
    """Vectors that are computed once and kept, by name.

    Args:
        fleet: whose encoder they belong to.
        kind: the folder in ``runs``.
    """

    def __init__(self, fleet: Fleet, kind: str = "private_changes") -> None:
        self.fleet = fleet
        self._folder = ROOT / "runs" / kind / fleet.name
        self._folder.mkdir(parents=True, exist_ok=True)

    def __contains__(self, name: str) -> bool:
        return self._path(name).is_file()

    def get(self, name: str) -> Floats:
        """The vector of that name."""
        return parse(self._path(name).read_bytes())["values"]

    def put(self, name: str, values: NDArray[np.floating]) -> Floats:
        """Keep a vector, float32."""
        kept = np.ascontiguousarray(values, np.float32)
        write_atomic(self._path(name), serialize({"values": kept}))
        return kept

    def trained(self, name: str, queries: Sequence[str], seed: int, config: LocalConfig) -> Floats:
        """The change of these queries, trained where it is not here yet."""
        if name not in self:
            return self.put(name, self.fleet.change(queries, seed, config=config))
        return self.get(name)

    def user(self, users: Sequence[User], place: int, replica: int = 0) -> Floats:
        """The change of user ``place``; ``replica`` 1 is the attacker's, with other coins."""
        user = users[place]
        return self.trained(f"{user.name}-{replica}", user.queries, 2 * place + replica, LOCAL)

    def ready(self, users: Sequence[User]) -> list[int]:
        """The users both of whose changes are here, in their order."""
        return [n for n, u in enumerate(users) if all(f"{u.name}-{r}" in self for r in (0, 1))]

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"


def read_users(data: Path) -> list[User]:
    """The users, the same at every call; CLINC150's and SQuAD's by turns."""
    rng = random.Random(SEED)
    clinc, squad = list(_clinc(data, rng)), list(_squad(rng))
    return [user for pair in zip(clinc, squad, strict=True) for user in pair]


def _clinc(data: Path, rng: random.Random) -> Iterator[User]:
    texts: dict[str, list[str]] = defaultdict(list)
    for _, intent, text in rows(data / "clinc150" / "train.tsv.gz"):
        if intent != "oos" and text not in texts[intent]:
            texts[intent].append(text)
    for found in texts.values():
        rng.shuffle(found)
    names = sorted(texts)
    dealt: list[str] = []
    while len(dealt) < USERS // 2 * INTENTS:
        dealt += rng.sample(names, len(names))
    each = QUERIES // INTENTS
    hands = []
    for number in range(USERS // 2):
        topics = dealt[number * INTENTS : (number + 1) * INTENTS]
        queries = [text for topic in topics for text in texts[topic][:each]]
        for topic in topics:
            del texts[topic][:each]
        hands.append((topics, queries))
    for number, (topics, queries) in enumerate(hands):
        others = [text for topic in topics for text in texts[topic][-each:]]
        yield User(f"clinc-{number}", topics, queries, others)


def _squad(rng: random.Random) -> Iterator[User]:
    corpus = read_demo_corpus()
    texts: dict[str, list[str]] = defaultdict(list)
    for query in corpus.training.queries:
        found = texts[article(min(corpus.training.judgements[query.id]))]
        if query.text not in found:
            found.append(query.text)
    hands = []
    for name in sorted(texts):
        rng.shuffle(texts[name])
        # An article's last questions stay nobody's where they make no whole user.
        starts = range(0, len(texts[name]) - QUERIES + 1, QUERIES)
        hands += [(name, texts[name][start : start + QUERIES]) for start in starts]
    chosen = rng.sample(hands, USERS // 2)
    asked = {text for _, queries in chosen for text in queries}
    free = {name: [text for text in found if text not in asked] for name, found in texts.items()}
    for number, (name, queries) in enumerate(chosen):
        yield User(f"squad-{number}", [name], queries, free[name][:QUERIES])


def clipped(change: NDArray[np.floating], norm: float = 1.0) -> Floats:
    """``change`` with an L2 norm of at most ``norm``, as the device clips."""
    return Clip(norm).on_device({"": np.asarray(change, np.float32)})[""]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--bundle, --index and --data."""
    parser.add_argument("--bundle", type=Path, default=ROOT / "demo" / "bundle")
    parser.add_argument("--index", type=Path, default=ROOT / "demo" / "index")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")


def open_fleet(arguments: argparse.Namespace) -> tuple[Fleet, list[User]]:
    """The fleet and the users that the arguments name."""
    return Fleet(arguments.bundle, arguments.index), read_users(data_folder(arguments.data))
