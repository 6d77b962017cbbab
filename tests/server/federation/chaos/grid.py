"""The grid of faults and levels: what each cell does to devices and what must come of it."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.private.messages import Stage
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery_simulation.local_grid import Fault
from tests.kills import in_a_fork
from tests.server.federation.chaos.expectation import Wrong, expected_rounds, wrong
from tests.server.federation.chaos.kills import left_by, same_rounds, writes_of
from tests.server.federation.chaos.lies import plain_lies, stage_lies
from tests.server.federation.chaos.rehearsal import Harm, Ran, Rehearsal

__all__ = ["Case", "Extent", "Row", "cases", "rows"]

LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
_TWENTIETH = 0.05
_LEAST_COSINE = 0.5
_FAILED = "ended in an error"
_STAGES = {
    Stage.OFFER: "before it is ready",
    Stage.INVITE: "before its shares",
    Stage.COLLECT: "before its masked change",
    Stage.CONFIRM: "before it confirms",
    Stage.UNMASK: "before it reveals",
}
_EXACT = (
    "the release is exactly of the devices whose valid reply was in time, or a skip by the rules"
)
_LEFT_OUT = "each such reply left out under its reason; the release exactly of the others"
_PLAIN_LIES = {
    "nan": "NaN in the change",
    "norm": "huge change",
    "shape": "wrong shape",
    "dtype": "wrong type",
    "weight": "huge weight claimed",
    "replay": "replayed reply",
    "stale": "reply to the round before",
    "oversized": "oversized reply",
    "garbage": "garbage",
}
_STAGE_LIES = {
    "certificate": ("forged certificate", _LEFT_OUT),
    "proof": ("another device's certificate", _LEFT_OUT),
    "shape": ("wrong shape", _LEFT_OUT),
    "replay": ("reply of another round", _LEFT_OUT),
    "garbage": ("garbage under a mask", "its group gives no sum, as out of range"),
    "norm": ("huge change under a mask", "its group gives no sum, as out of range"),
    "wrong shares": ("wrong shares", "the sum all the same, exactly; or a skip by the rules"),
}


@dataclass(frozen=True)
class Extent:
    """How much of the grid is run.

    Attributes:
        levels: shares of the devices that are harmed.
        repeats: runs of each cell, with other devices harmed.
        kills: writes that a process is killed at, in each kind of rounds.
    """

    levels: tuple[float, ...] = LEVELS
    repeats: int = 2
    kills: int = 16


@dataclass(frozen=True)
class Case:
    """A cell of the grid.

    Attributes:
        fault: what is wrong.
        share: of the devices it is wrong with; None: with one.
        expected: what must come of it, in words.
        harm: what it does to nodes.
        rounds: how many are run.
        steers: whether it is looked at where the release has gone to.
    """

    fault: str
    share: float | None
    expected: str
    harm: Harm
    rounds: int = 1
    steers: bool = False

    @property
    def level(self) -> str:
        """How many devices, as the table says it."""
        if self.share is None:
            return "1 device"
        return "1 in 20" if self.share == _TWENTIETH else f"{100 * self.share:.0f} %"

    def drawn(self, rehearsal: Rehearsal, seed: int) -> Harm:
        """The harm, to nodes that ``seed`` draws; a single one is heard in every round."""
        nodes = rehearsal.order(0)
        many = 1 if self.share is None else math.ceil(self.share * len(nodes) - 1e-9)
        if self.share is None:
            enough = rehearsal.options.settings.clients_per_round
            heard = (set(rehearsal.order(number)[:enough]) for number in range(self.rounds))
            nodes = sorted(set.intersection(*heard)) or nodes
        chosen = np.random.default_rng([seed, many]).permutation(nodes)[:many]
        return replace(self.harm, nodes=frozenset(map(int, chosen)))


@dataclass
class Row:
    """A row of the table.

    Attributes:
        rounds: "plain" or "private".
        fault, level, expected: see :class:`Case`.
        runs, passed: how many, and of how many everything was as expected.
        outcomes: how often rounds came to what.
        lost: runs in which something was lost.
        wrong: of runs that were not as expected, where and what; at most one a run.
    """

    rounds: str
    fault: str
    level: str
    expected: str
    runs: int = 0
    passed: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """Whether every run was as expected."""
        return self.passed == self.runs

    def add(self, outcome: str, found: list[Wrong], where: Path) -> None:
        """One run more; where it is not as expected, what it left stays in ``where``."""
        self.runs += 1
        self.outcomes[outcome] += 1
        if not found:
            self.passed += 1
            shutil.rmtree(where, ignore_errors=True)
            return
        self.lost += any(one.lost for one in found)
        self.wrong.append(f"{found[0].said} (see {where})")


def cases(rehearsal: Rehearsal, extent: Extent) -> Iterator[Case]:
    """The cells for plain rounds, or for private ones where the options are of some; the first is
    without any harm.
    """
    yield Case("none", 0.0, "a release of everybody asked for, exactly", Harm())
    levels = [level for level in extent.levels if level]
    few = (None, 0.2)[: 2 if extent.repeats > 1 else 1]
    if rehearsal.options.secure is None:
        for name, fault, rounds in (
            ("dies before it trains", Fault.DIES, 1),
            ("reply is lost", Fault.NEVER, 1),
            ("reply is too late", Fault.LATE, 2),
            ("reply comes twice", Fault.TWICE, 1),
        ):
            for level in levels:
                yield Case(name, level, _EXACT, Harm(fault=fault), rounds)
        lies = plain_lies(rehearsal.options.settings)
        for name, said in _PLAIN_LIES.items():
            for share in few:
                rounds = 2 if lies[name].repeats else 1
                yield Case(said, share, _LEFT_OUT, Harm(lie=lies[name]), rounds)
        said = "counted like any other; the release goes the way the honest ones go"
        yield Case("sign flip", _TWENTIETH, said, Harm(lie=lies["negated"]), steers=True)
        return
    for stage, said in _STAGES.items():
        for level in levels:
            yield Case(f"goes {said}", level, _EXACT, Harm(fault=Fault.NEVER, stage=stage))
    for said, harm in (
        ("masked change is too late", Harm(fault=Fault.LATE, stage=Stage.COLLECT)),
        ("every reply comes twice", Harm(fault=Fault.TWICE)),
    ):
        for level in levels:
            yield Case(said, level, _EXACT, harm)
    for share in few:
        nan = Harm(factor=math.nan)
        yield Case("NaN in the change", share, "the device itself declines; as if it died", nan)
    for name, lie in stage_lies().items():
        said, must = _STAGE_LIES[name]
        for share in few:
            yield Case(said, share, must, Harm(lie=lie))
    said = "in the sum, as masks hide it; the step no longer than clipping lets it be"
    yield Case("sign flip", _TWENTIETH, said, Harm(factor=-1000.0))


def rows(rehearsal: Rehearsal, extent: Extent, folder: Path) -> list[Row]:
    """Run the grid in ``folder`` and return its rows; what failed stays in the folder."""
    kind = "plain" if rehearsal.options.secure is None else "private"
    found: list[Row] = []
    honest: NDArray[np.float32] | None = None
    for number, case in enumerate(cases(rehearsal, extent)):
        row = Row(kind, case.fault, case.level, case.expected)
        for seed in range(extent.repeats if case.share != 0 else 1):
            where = folder / f"{kind}-{number}-{seed}"
            harm = case.drawn(rehearsal, seed)
            try:
                ran = rehearsal.run(where, harm, case.rounds)
                complaints = wrong(ran, expected_rounds(rehearsal, harm, ran))
                outcome = "; ".join(map(_outcome, ran.reports))
                if honest is None:
                    honest = _step(ran)
                if case.steers:
                    cosine = _cosine(honest, _step(ran))
                    outcome += f", cosine {cosine:.1f}"
                    if not cosine > _LEAST_COSINE:
                        said = f"cosine {cosine:.2f} to the honest change, expected {_LEAST_COSINE}"
                        complaints.append(Wrong(said))
            except Exception as error:  # whatever it is, it belongs into the table
                complaints = [Wrong(f"{type(error).__name__}: {error}", lost=True)]
                outcome = _FAILED
            row.add(outcome, complaints, where)
        found.append(row)
    found.append(_killed(rehearsal, extent.kills, folder, kind))
    return found


def _killed(rehearsal: Rehearsal, kills: int, folder: Path, kind: str) -> Row:
    """Rounds killed at some of their writes and gone on with."""
    secure = rehearsal.options.secure is not None
    said = "gone on with to the same bits as without a kill"
    row = Row(kind, "process killed at a write", f"{kills} points", said)
    # Who dies lets no time pass: a row says how long the process was at it that ended the round.
    harm = Harm(fault=Fault.DIES, stage=Stage.COLLECT)
    harm = Case("", None, "", harm).drawn(rehearsal, 0)
    rounds = 1 if secure else 2

    def run(where: Path, kill_at: int | None = None) -> int | None:
        return in_a_fork(lambda: writes_of(lambda: rehearsal.run(where, harm, rounds), kill_at))

    whole = folder / f"{kind}-whole"
    try:
        writes = run(whole) or 0
        wanted = left_by(whole)
    except Exception as error:
        said = f"without a kill: {type(error).__name__}: {error}"
        row.add(_FAILED, [Wrong(said, lost=True)], whole)
        return row
    row.level = f"{kills} of {writes}"
    for point in range(kills):
        kill_at = 1 + writes * point // kills
        where, found = folder / f"{kind}-killed-{kill_at}", list[Wrong]()
        try:
            if run(where, kill_at) is not None:
                found.append(Wrong(f"write {kill_at} was not reached"))
            in_a_fork(lambda: len(rehearsal.run(where, harm, rounds).reports))  # noqa: B023
            if not same_rounds(left_by(where), wanted, secure=secure):
                found.append(Wrong(f"killed at write {kill_at}, the rounds differ", lost=True))
            outcome = "gone on with"
        except Exception as error:
            said = f"killed at write {kill_at}: {type(error).__name__}: {error}"
            found.append(Wrong(said, lost=True))
            outcome = _FAILED
        row.add(outcome, found, where)
    shutil.rmtree(whole, ignore_errors=True)
    return row


def _outcome(report: Any) -> str:
    if report.skipped is None:
        return f"released ({report.accepted} in it)"
    if report.stages:
        reasons = [name for name in report.quarantined if name != "duplicate"]
        return f"skipped: {', '.join(reasons) or 'too few ready'}"
    return "skipped: too few replies"


def _step(ran: Ran) -> NDArray[np.float32]:
    """From the first release to the newest."""
    history = list(ran.registry.history())
    before, after = (
        parse_adapter(ran.registry.read(one.version)).tensors for one in (history[0], history[-1])
    )
    return np.concatenate([(after[n] - before[n]).ravel() for n in sorted(before)])


def _cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    norms = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(one @ other) / norms if norms else 0.0
