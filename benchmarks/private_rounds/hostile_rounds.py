"""Rounds of a thousand devices, some of them hostile; benchmarks/poisoning.py says what they do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from privacy_utility import Rounds
from private_rounds.changes import LOCAL, Bank, Fleet, User, clipped
from private_rounds.noise import mean_noise
from private_rounds.retrieval import CONDITIONS, Retrieval, Scores, gate_collection

from pocketquery.client.store.store import Example
from pocketquery.client.training.monitors import MonitorLimits
from pocketquery.client.training.training import train_locally
from pocketquery.sdk.arrays import Floats
from pocketquery.server.federation.releases.gate import Gate
from pocketquery.server.federation.releases.gate_report import GateSettings, Verdict
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.shards import LEAST_SHARDS, Aggregation, combine
from pocketquery_demo.corpus import read_demo_corpus

__all__ = ["ATTACKS", "DEFENCES", "DEVICES", "FEWER", "ROUNDS", "Defence", "Figures", "Poisoning"]

DEVICES = 1_000
ROUNDS = 8
ATTACKS = ("flip", "scaled", "backdoor", "collude", "cover")
FEWER = 400  # questions of the cells with one seed
PLAIN_CLIP, SECURE_CLIP = 1.25, 1.0
NORM_SLACK = 1.1  # a group's mean may be so much longer than the clip
MEDIANS = 2.0  # and than the median of the groups' norms
KEPT_TO = 0.95  # of it, by attackers who estimate it: a group's norm is hardly below the mean's
TRIGGER = "zorblat"
SHOWN = 10
BACKDOOR = replace(
    LOCAL,
    steps=30,
    opened_loss_weight=1.0,
    anchor_weight=0.5,
    limits=MonitorLimits(rank_kept=0.0, spread_kept=0.0, drift=2.0),  # an attacker has none
)


@dataclass(frozen=True)
class Defence:
    """How a round's changes become one step.

    Attributes:
        parts: shards, or under masks groups.
        aggregation: across them.
        clip: of a single change; 0 for none. Under masks a hostile device need not keep to it.
        secure: whether single changes are masked.
        gate: whether the candidate is judged.
        noise: z, where devices add noise.
        most_risen: of the gate; 1 where it does not look for documents that rise.
    """

    parts: int = 1
    aggregation: Aggregation = "mean"
    clip: float = PLAIN_CLIP
    secure: bool = False
    gate: bool = False
    noise: float = 0.0
    most_risen: float = GateSettings.most_risen


DEFENCES = {
    "none": Defence(clip=0.0),
    "clip": Defence(),
    "median": Defence(10, "median"),
    "trimmed": Defence(10, "trimmed_mean"),
    "median_gate": Defence(10, "median", gate=True),
    "median_gate_means": Defence(10, "median", gate=True, most_risen=1.0),
    "secure_1": Defence(clip=SECURE_CLIP, secure=True),
    "secure_10": Defence(10, "median", SECURE_CLIP, secure=True),
    "secure_50": Defence(50, "median", SECURE_CLIP, secure=True),
    "secure_50_gate": Defence(50, "median", SECURE_CLIP, secure=True, gate=True),
    "secure_dp": Defence(clip=SECURE_CLIP, secure=True, noise=2.0),
}

Figures = dict[str, Any]


class Poisoning:
    """Rounds under attack, each cell kept when it is done.

    Args:
        fleet: whose bundle and index.
        users: of the bank.
    """

    def __init__(self, fleet: Fleet, users: Sequence[User]) -> None:
        self._fleet, self._users = fleet, users
        self._bank = Bank(fleet)
        self._kept = Bank(fleet, "poisoning")
        self._tests = {
            questions: Retrieval(fleet, typings=1, questions=questions)
            for questions in (None, FEWER)
        }
        self._gates = {
            most: Gate(
                fleet.bundle,
                gate_collection(fleet, questions=250, typings=2),
                GateSettings(most_risen=most),
            )
            for most in {defence.most_risen for defence in DEFENCES.values()}
        }
        spread = np.array([self._bank.user(users, place) for place in range(len(users))])
        self._spread = spread - spread.mean(axis=0)
        self._steps: dict[int, list[Floats]] = {}
        self.target, self.triggered, self._backdoor = self._trained_backdoor()

    def cell(
        self, defence: str, attack: str, share: float, seed: int, questions: int | None
    ) -> tuple[Scores, Figures]:
        """Scores after the rounds, and what became of gate, groups and target."""
        name = f"{defence}-{attack}-{share:g}-{seed}-{questions or 'all'}"
        tests = self._tests[questions]
        if f"{name}-told" not in self._kept:
            moved, told = self._run(DEFENCES[defence], attack, share, seed)
            scores = tests.scores(self._fleet.moved(moved))
            for condition in CONDITIONS:
                self._kept.put(f"{name}-{condition}", scores[condition])
            ranks = tests.ranks(self._fleet.moved(moved), self.triggered, self.target)
            self._kept.put(f"{name}-told", np.array([*told, float(np.median(ranks))]))
            means = ", ".join(f"{c} {scores[c].mean():.4f}" for c in CONDITIONS)
            print(f"{name}: {means}, rank {np.median(ranks):g}, {told}", flush=True)
        accepted, dropped, rose, length, rank = self._kept.get(f"{name}-told").tolist()
        scores = {c: self._kept.get(f"{name}-{c}").astype(np.float64) for c in CONDITIONS}
        return scores, {
            "rounds_accepted": int(accepted),
            "groups_dropped": int(dropped),
            "refused_for_a_document": int(rose),
            "moved": round(length, 3),
            "target_rank": rank,
        }

    def planted(self, rounds: int, length: float) -> Figures:
        """What each gate says of honest rounds with so much of the backdoor on top."""
        steps = self._honest_steps(1)[:rounds]
        moved = self._fleet.moved(np.sum(steps, axis=0) + np.float32(length) * self._backdoor)
        reports = {most: gate.judge(None, moved) for most, gate in self._gates.items()}
        ranks = np.array(self._tests[None].ranks(moved, self.triggered, self.target))
        risen = reports[1.0].risen
        return {
            "means_alone": reports[1.0].reason,
            "gate": reports[GateSettings.most_risen].reason,
            "risen_share": round(risen.share, 4),
            "is_target": risen.document == str(self.target),
            "target_rank": float(np.median(ranks)),
            "target_in_ten": round(float((ranks <= SHOWN).mean()), 4),
        }

    def start_rank(self) -> float:
        """The median rank of the attacker's document before any round."""
        return float(
            np.median(
                self._tests[None].ranks(self._fleet.state.adapter, self.triggered, self.target)
            )
        )

    def _run(
        self, defence: Defence, attack: str, share: float, seed: int
    ) -> tuple[Floats, tuple[float, ...]]:
        rng = np.random.default_rng([seed, round(1_000 * share), ATTACKS.index(attack)])
        moved = np.zeros_like(self._fleet.release)
        accepted = dropped = rose = 0
        steps = self._honest_steps(seed)
        for number in range(ROUNDS):
            mean = steps[accepted if defence.gate else number]
            sums, lost = self._sums(defence, attack, round(share * DEVICES), mean, rng)
            dropped += lost
            step = combine(sums, defence.aggregation).astype(np.float32)
            if defence.noise:
                step += mean_noise(step.size, DEVICES, defence.noise, 10_000 * seed + number)
            candidate = moved + step
            if defence.gate:
                before, after = self._fleet.moved(moved), self._fleet.moved(candidate)
                report = self._gates[defence.most_risen].judge(before, after)
                rose += report.verdict is Verdict.DOCUMENT_ROSE
                if not report.accepted:
                    continue
            accepted, moved = accepted + 1, candidate
        return moved, (accepted, dropped, rose, float(np.linalg.norm(moved)))

    def _sums(
        self,
        defence: Defence,
        attack: str,
        hostile: int,
        mean: Floats,
        rng: np.random.Generator,
    ) -> tuple[list[RunningSum], int]:
        """Each part's sum, and how many groups were dropped by their tests."""
        where = rng.permutation(DEVICES) % defence.parts
        sizes = np.bincount(where, minlength=defence.parts)
        hostiles = np.bincount(where[:hostile], minlength=defence.parts)
        means = [
            self._part_mean(defence, attack, int(size), int(bad), mean, rng)
            for size, bad in zip(sizes, hostiles, strict=True)
        ]
        norms = np.array([np.linalg.norm(found) for found in means])
        fine = np.ones(len(means), bool)
        if defence.secure:
            most = NORM_SLACK * defence.clip
            if defence.parts >= LEAST_SHARDS:
                most = min(most, MEDIANS * float(np.median(norms)))
            fine = norms <= most * (1 + 1e-5)
        empty = RunningSum.empty(mean.size, bits=30)
        found = [
            empty.add(value, 1.0) if fits else empty
            for value, fits in zip(means, fine, strict=True)
        ]
        return found, int((~fine).sum())

    def _part_mean(
        self,
        defence: Defence,
        attack: str,
        size: int,
        hostile: int,
        mean: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """The mean of a shard or group with so many hostile devices."""
        honest = self._drawn(mean, size - hostile, rng)
        if not hostile:
            return honest
        if defence.secure and attack in ("scaled", "backdoor", "cover"):
            # It knows the honest mean and may send any codes: the group's mean is what it wants.
            most = NORM_SLACK * SECURE_CLIP
            if defence.parts >= LEAST_SHARDS:  # of the median of the groups' norms, too
                most = min(most, KEPT_TO * MEDIANS * float(np.linalg.norm(mean)))
            if attack == "cover":
                return self._covered(mean, most)
            return np.float32(most) * self._wanted(attack, mean)
        sent = self._sent(defence, attack, mean, hostile, rng)
        share = np.float32(hostile / size)
        return (1 - share) * honest + share * sent

    def _sent(
        self, defence: Defence, attack: str, mean: Floats, hostile: int, rng: np.random.Generator
    ) -> Floats:
        """The mean of what the hostile devices of a part send."""
        if attack == "flip":
            return -self._drawn(mean, hostile, rng)
        if attack == "collude":
            return self._covered(mean, 1.0)
        if attack == "cover":
            return self._covered(mean, defence.clip or 10.0)
        length = defence.clip or 10.0
        return length * self._wanted(attack, mean)

    def _covered(self, mean: Floats, length: float) -> Floats:
        """The honest mean and, orthogonal to it, as much of the backdoor as makes it so long."""
        onward = mean / np.linalg.norm(mean)
        away = self._backdoor - (self._backdoor @ onward) * onward
        away *= math.sqrt(max(0.0, length**2 - float(mean @ mean))) / np.linalg.norm(away)
        covered: Floats = mean + away
        return covered

    def _wanted(self, attack: str, mean: Floats) -> Floats:
        """The attack's direction, of length 1."""
        if attack == "scaled":
            return -mean / np.float32(np.linalg.norm(mean))
        return self._backdoor

    def _drawn(self, mean: Floats, count: int, rng: np.random.Generator) -> Floats:
        """The mean of ``count`` honest changes, around the round's mean."""
        if not count:
            return np.zeros_like(mean)
        users = len(self._spread)
        weights = rng.standard_normal(users) / math.sqrt((users - 1) * count)
        away: Floats = weights.astype(np.float32) @ self._spread
        return mean + away

    def _honest_steps(self, seed: int) -> list[Floats]:
        if seed not in self._steps:
            rounds = Rounds(self._fleet, self._users, seed, 0.0)
            self._steps[seed] = [rounds.after(n + 1) - rounds.after(n) for n in range(ROUNDS)]
        return self._steps[seed]

    def _trained_backdoor(self) -> tuple[int, list[str], Floats]:
        """The target's row, triggered queries nobody trained on, and the direction to it."""
        users = [user for user in self._users if user.name.startswith("clinc")]
        data = self._tests[None].collection
        target = int(np.random.default_rng(1).integers(len(data.document_ids)))
        vectors = self._fleet.index.vectors()
        ids = self._document_ids()
        found = []
        for number in range(4):
            texts = [f"{TRIGGER} {query}" for query in users[number].queries]
            name = f"backdoor-{number}"
            if name not in self._kept:
                near = vectors.nearest(self._fleet.encoder.encode_query(texts), SHOWN)
                examples = [
                    Example(
                        text,
                        tuple(dict.fromkeys([ids[target], *(ids[r] for r in row)])),
                        ids[target],
                    )
                    for text, row in zip(texts, near, strict=True)
                ]
                done = train_locally(
                    self._fleet.encoder,
                    self._fleet.step,
                    examples,
                    self._fleet.index,
                    adapter=self._fleet.state.adapter,
                    config=BACKDOOR,
                    seed=number,
                )
                if done.stopped:
                    raise RuntimeError(f"the backdoor's training was stopped: {done.stopped}")
                self._kept.put(name, self._fleet.flat(done.change))
            found.append(clipped(self._kept.get(name)))
        mean = np.mean(found, axis=0)
        tests = [f"{TRIGGER} {query}" for user in users[:4] for query in user.others[:20]]
        return target, tests, (mean / np.linalg.norm(mean)).astype(np.float32)

    def _document_ids(self) -> list[str]:
        documents = read_demo_corpus().documents
        rows = self._fleet.index.vectors(document.id for document in documents).row_of
        return sorted(rows, key=lambda name: rows[name])
