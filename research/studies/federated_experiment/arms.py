"""One run of the federated experiment: rounds over clients, then the int8 encoder's retrieval."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from federated_experiment.domains import GENERAL, Client, Domain, read_domain
from federated_experiment.encoders import base_bundle
from numpy.typing import NDArray

from pocketquery import sdk
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.store.store import Example
from pocketquery.client.training.step import LocalStep
from pocketquery.client.training.training import train_locally
from pocketquery.client.update import UpdateHeader, bounded_weight, encode_update
from pocketquery.client.views.typing_noise import mistype
from pocketquery.export.settings import Objective
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import Index, create_index
from pocketquery.server.evaluation import encode_documents, rank_exactly, score_rankings
from pocketquery.server.federation.rounds.round import apply
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["ARMS", "Arm", "Bench", "Run"]

Run: TypeAlias = "dict[str, NDArray[np.float64]]"  # condition -> score of each query

ROUNDS = 8
CLIENTS = 8  # a round
# The settings of the published table, which are not today's defaults.
CLIP_NORM = 2.0
LARGEST_WEIGHT = 64.0
TYPOS = 0.08
GENERAL_TESTS = 1_500
SHOWN = 10
LOCAL = LocalConfig(steps=10, batch_size=16, learning_rate=1e-3)


@dataclass(frozen=True)
class Arm:
    """What differs between the runs.

    Attributes:
        objective: of the training step.
        anchor: weight of the pull to the shipped encoder.
        opened: whether opened results are compared with what else was shown.
        compressed: whether updates travel in 8 bits, or in float32.
        central: one place that holds all queries, with as many queries a step as a round's devices
            have together.
        hybrid: whether each query is taught the device's own hybrid ranking, as ``pocketquery
            adapt`` does with pseudo-queries.
        mistyped: of which share of the queries the mistyped view is taught it.
    """

    objective: Objective = "index_byol"
    anchor: float = 5.0
    opened: bool = False
    compressed: bool = True
    central: bool = False
    hybrid: bool = False
    mistyped: float = 0.0


ARMS: dict[str, Arm] = {
    "before": Arm(),
    "byol": Arm("byol", anchor=0.0),
    "byol_anchor": Arm("byol", anchor=1.0),
    "index_byol": Arm(),
    "index_byol_uncompressed": Arm(compressed=False),
    "index_byol_opened": Arm(opened=True),
    "index_byol_central": Arm(central=True),
    "index_byol_loose": Arm(anchor=0.5),  # what of the last arm's gain is the anchor's
    "index_byol_hybrid": Arm(hybrid=True),
    "index_byol_hybrid_loose": Arm(hybrid=True, anchor=0.5),  # the anchor of `pocketquery adapt`
    "index_byol_hybrid_half": Arm(hybrid=True, anchor=2.5),  # what of the next's is the anchor's
    "index_byol_hybrid_mistyped": Arm(hybrid=True, mistyped=0.5),
}


class Bench:
    """One encoder in one domain; what the arms share is computed once.

    Args:
        encoder: ``plain`` or ``noisy``, see federated_experiment/encoders.py.
        domain: see federated_experiment/domains.py.
        data: the folder of the data sets.
        work: where encoders, vectors and indexes are kept.
    """

    def __init__(self, encoder: str, domain: str, data: Path, work: Path) -> None:
        self.encoder_name, self.domain_name = encoder, domain
        self._data, self._work = data, work

    def run(self, name: str, seed: int) -> Run:
        """Scores of the int8 encoder after the rounds of the arm ``name``."""
        arm = ARMS[name]
        path = base_bundle(self.encoder_name, arm.objective, self._data, self._work)
        bundle, encoder = Bundle.open(path), sdk.load(path)
        state = FederationState.of_bundle(bundle)
        if name != "before":
            state = self._rounds(arm, seed, encoder, LocalStep.open(bundle), state)
            encoder.swap_adapter(state.adapter)
        return self._scores(encoder)

    def _rounds(
        self, arm: Arm, seed: int, encoder: Encoder, step: LocalStep, state: FederationState
    ) -> FederationState:
        config = replace(
            LOCAL,
            anchor_weight=arm.anchor,
            opened_loss_weight=float(arm.opened),
            hybrid_loss_weight=float(arm.hybrid),
            hybrid_mistyped=arm.mistyped,
            batch_size=LOCAL.batch_size * (CLIENTS if arm.central else 1),
        )
        settings = RoundSettings(
            clients_per_round=1 if arm.central else CLIENTS,
            over_selection=1.0,
            least_replies=1,
            clip_norm=CLIP_NORM,
            weighting="declared",
            aggregation="mean",
            shards=1,
            largest_weight=LARGEST_WEIGHT,
        )
        held = self._held(arm, encoder)
        rng = random.Random(seed)
        residuals: dict[int, dict[str, NDArray[np.float32]]] = {}

        def replies(state: FederationState) -> Iterator[bytes]:
            for place in rng.sample(range(len(held)), settings.clients_per_round):
                done = train_locally(
                    encoder,
                    step,
                    held[place],
                    self.index,
                    adapter=state.adapter,
                    config=config,
                    seed=rng.randrange(2**31),
                )
                if done.stopped:
                    print(f"stopped: {done.stopped}", flush=True)
                    continue
                header = UpdateHeader(
                    space_id=state.space_id,
                    encoder_sha256=state.encoder_sha256,
                    base_version=state.version,
                    round=state.round,
                    nonce=f"{rng.getrandbits(128):032x}",
                    weight=bounded_weight(done.examples, LARGEST_WEIGHT),
                )
                data, residuals[place] = encode_update(
                    done.change,
                    header=header,
                    clip_norm=settings.clip_norm,
                    residual=residuals.get(place) if arm.compressed else None,
                    compress=arm.compressed,
                )
                yield data

        for _ in range(ROUNDS):
            state, _ = apply(state, replies(state), settings)
        return state

    def _held(self, arm: Arm, encoder: Encoder) -> list[list[Example]]:
        """The examples of each device."""
        held = [self._examples(client, arm, encoder) for client in self.domain.clients]
        return [[example for hand in held for example in hand]] if arm.central else held

    def _examples(self, client: Client, arm: Arm, encoder: Encoder) -> list[Example]:
        if not arm.opened:
            return [Example(query) for query in client.queries]
        vectors = encoder.encode_query(list(client.queries))
        lists = rank_exactly(vectors, self.vectors, self.ids, SHOWN)
        return [
            Example(query, tuple(shown), next((i for i in shown if i in relevant), None))
            for query, shown, relevant in zip(client.queries, lists, client.relevant, strict=True)
        ]

    def _scores(self, encoder: Encoder) -> Run:
        found: Run = {}
        general = Bench(self.encoder_name, GENERAL[self.domain_name], self._data, self._work)
        for name, bench in (("domain", self), ("general", general)):
            most = None if bench is self else GENERAL_TESTS
            found[name] = bench.score(encoder, 0.0, most)
            found[f"{name}_mistyped"] = bench.score(encoder, TYPOS, most)
        return found

    def score(self, encoder: Encoder, typos: float, most: int | None = None) -> NDArray[np.float64]:
        """nDCG@10 of the first ``most`` test queries, mistyped alike for every encoder."""
        tests, rng = self.domain.tests, random.Random(5)
        queries = tests.queries[:most]
        texts = [mistype(query.text, typos, rng) for query in queries]
        lists = rank_exactly(encoder.encode_query(texts), self.vectors, self.ids, 10)
        rankings = {query.id: found for query, found in zip(queries, lists, strict=True)}
        judged = {query.id: tests.judgements[query.id] for query in queries}
        return score_rankings(judged, rankings).per_query["ndcg@10"]

    @cached_property
    def domain(self) -> Domain:
        """Documents, tests and clients."""
        return read_domain(self.domain_name, self._data)

    @cached_property
    def ids(self) -> list[str]:
        """Ids of the documents, in the order of their vectors."""
        return [document.id for document in self._documents]

    @property
    def _documents(self) -> list[Document]:
        return self.domain.tests.documents

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """The teacher's vectors of the documents, float32 (n, d)."""
        teacher = SentenceEncoder.load("demo")
        return encode_documents(teacher, self._documents, cache=self._work / "document_vectors")

    @cached_property
    def index(self) -> Index:
        """The frozen index the devices hold."""
        path = self._work / f"{self.domain_name}-{len(self.ids)}-index"
        if not path.is_dir():
            space = SentenceEncoder.load("demo").space_id
            with create_index(path, space_id=space, dimension=self.vectors.shape[1]) as builder:
                builder.add(self._documents, self.vectors)
        return sdk.open_index(path)
