"""What must come of a run, from who was harmed and how, without looking at its result.

A plain round must release the aggregate of exactly those replies that were valid and in time, a
private one that of exactly the survivors that the protocol's rules name, or be skipped for the
reason that they give. Both are computed anew here, from what devices sent and learnt, and compared
to the bit.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.private.binding import Binding
from pocketquery.client.private.encoding import encode, totals
from pocketquery.client.private.keys import RoundSecret
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.noise import Table, draw, sigma
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.round import close_round, receive
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.private.coordinator import SecureReason
from pocketquery_simulation.local_grid import Fault
from tests.server.federation.chaos.lies import Lie, StageLie
from tests.server.federation.chaos.rehearsal import Harm, Ran, Rehearsal

__all__ = ["Expected", "Wrong", "expected_rounds", "expected_sum", "wrong"]

_SILENT = (Fault.DIES, Fault.NEVER, Fault.LATE)
# Counts of what reached the server: not of the last copies, nor of a wrong share nobody needed.
_MAY_BE = ("duplicate", "bad_share")


@dataclass(frozen=True)
class Expected:
    """What must come of a round.

    Attributes:
        state: after it.
        skipped: whether nothing comes of it.
        reasons: what must be counted as left out, by reason; None: any number.
        accepted: how many devices are in the sum.
        failed: how many are reported as dead; None: any number.
        exact: whether the release is known to the bit.
        strangers: devices of a private round that were invited and had not said that they are
            ready, or were ready and not invited.
    """

    state: FederationState
    skipped: bool
    reasons: Mapping[str, int | None]
    accepted: int
    failed: int | None = None
    exact: bool = True
    strangers: int = 0


@dataclass(frozen=True)
class Wrong:
    """Where a run is not as it must be.

    Attributes:
        said: what was found and what was expected.
        lost: whether something was lost by it: a round that came to no end, or a release that is
            not made of exactly the replies that it should be.
    """

    said: str
    lost: bool = False


def expected_rounds(rehearsal: Rehearsal, harm: Harm, ran: Ran) -> list[Expected]:
    """Of every round that ``ran``, what must have come of it."""
    if rehearsal.options.secure is not None:
        return [_private(rehearsal, harm, ran)]
    return list(_plain(rehearsal, harm, ran))


def wrong(ran: Ran, expected: Sequence[Expected]) -> list[Wrong]:
    """Where ``ran`` is not as ``expected``; nothing where all is well."""
    found = []
    if len(ran.reports) != len(expected):
        said = f"{len(ran.reports)} rounds came to an end, expected {len(expected)}"
        found.append(Wrong(said, lost=True))
    for report, wanted in zip(ran.reports, expected, strict=False):
        found += _wrong(ran, report, wanted)
    return found


def _wrong(ran: Ran, report: RoundReport, wanted: Expected) -> Iterator[Wrong]:
    where = f"round {report.round}: "
    if (report.skipped is not None) != wanted.skipped:
        what = "a skip" if wanted.skipped else "a release"
        yield Wrong(f"{where}{report.outcome} ({report.skipped}), expected {what}", lost=True)
        return
    if report.accepted != wanted.accepted:
        yield Wrong(f"{where}{report.accepted} in the sum, expected {wanted.accepted}", lost=True)
    if wanted.failed is not None and report.failed != wanted.failed:
        yield Wrong(f"{where}{report.failed} failed, expected {wanted.failed}")
    if wanted.strangers:
        yield Wrong(
            f"{where}{wanted.strangers} devices were dealt a place wrongly, or not dealt one"
        )
    found = {name: n for name, n in report.quarantined.items() if name not in _MAY_BE}
    counted = {name: found.get(name) if n is None else n for name, n in wanted.reasons.items()}
    if found != counted:
        yield Wrong(f"{where}left out {found}, expected {dict(wanted.reasons)}")
    if wanted.skipped or not wanted.exact:
        return
    assert report.version is not None
    released = parse_adapter(ran.registry.read(report.version)).tensors
    for name, value in wanted.state.adapter.items():
        if not np.array_equal(released[name], value.astype(np.float16).astype(np.float32)):
            said = "the release is not the aggregate of the devices that must be in it"
            yield Wrong(where + said, lost=True)
            return


def _plain(rehearsal: Rehearsal, harm: Harm, ran: Ran) -> Iterator[Expected]:
    state, settings, late = rehearsal.first, rehearsal.options.settings, 0
    known: set[int] = set()  # whose reply was taken in an earlier round
    enough = min(settings.clients_per_round, rehearsal.asked)
    for report in ran.reports:
        number, taken, heard = report.round, list[bytes](), set[int]()
        counts: Counter[str] = Counter({"stale_round": late} if late else {})
        failed = late = 0
        for node in rehearsal.order(number):
            fault = harm.fault_of(node, str(number))
            reason = _reason(harm, node, known)
            if fault in _SILENT:
                failed += fault is Fault.DIES
                late += fault is Fault.LATE
            elif reason is not None:
                counts[reason] += 1
            else:
                taken.append(ran.sent[str(number), node])
                heard.add(node)
                if len(taken) == enough:
                    break
        known |= heard
        opened = open_round(state, settings, asked=rehearsal.asked)
        for update in reversed(taken):  # the order of arrival changes nothing
            opened, _ = receive(opened, update, 0.0)
        after, closed = close_round(opened)
        state = after.released(report.version or "") if closed.skipped is None else after
        reasons: dict[str, int | None] = {name: n for name, n in counts.items() if n}
        yield Expected(state, closed.skipped is not None, reasons, len(taken), failed)


def _reason(harm: Harm, node: int, known: set[int]) -> str | None:
    lie = harm.lie if node in harm.nodes else None
    if not isinstance(lie, Lie) or (lie.repeats and node not in known):
        return None
    return lie.reason


def _private(rehearsal: Rehearsal, harm: Harm, ran: Ran) -> Expected:
    """Of the first round, which is the only one: devices rest after it."""
    secure, settings = rehearsal.options.secure, rehearsal.options.settings
    assert secure is not None
    reasons: Counter[str] = Counter()
    ready: set[int] = set()
    for node in rehearsal.order(0):
        if len(ready) == min(settings.clients_per_round, rehearsal.asked):
            break
        if not _is_absent(harm, node, Stage.OFFER):
            ready.add(node)
        elif isinstance(harm.lie, StageLie):
            reasons[harm.lie.reason] += 1
    opened = open_round(rehearsal.first, settings, asked=rehearsal.asked)
    if len(ready) < secure.least:
        return Expected(close_round(opened)[0], True, dict(reasons), 0)
    shards, spoilt = list(opened.shards), set[str]()
    groups = _groups(ran)
    for number, nodes in groups.items():
        binding = ran.invitations[nodes[0]].binding
        came = {
            stage: {n for n, node in enumerate(nodes) if not _is_absent(harm, node, stage)}
            for stage in Stage
        }
        found = expected_sum(binding, secure.least_survivors(len(nodes)), came)
        liars = {n for n, node in enumerate(nodes) if node in harm.nodes}
        if isinstance(harm.lie, StageLie):
            if harm.lie.effect == "absent" and harm.lie.stage is not Stage.OFFER:
                reasons[harm.lie.reason] += len(liars)
            if harm.lie.effect == "spoils" and isinstance(found, tuple) and liars & set(found):
                found = SecureReason(harm.lie.reason)
        if isinstance(found, SecureReason):
            spoilt.add(found.value)
            continue
        codes = (_codes(rehearsal, harm, nodes[n], binding) for n in found)
        shards[number] = RunningSum.of_totals(
            np.sum(list(codes), axis=0),
            binding.encoding.exponent,
            len(found),
            shares=settings.clients_per_round if secure.is_noisy else None,
            bits=settings.bits(),
        )
    after, closed = close_round(dataclasses.replace(opened, shards=tuple(shards)))
    return Expected(
        after,
        closed.skipped is not None,
        {**reasons, **dict.fromkeys(spoilt)},
        closed.accepted,
        # a step longer than the groups' norm may be is shortened
        exact=closed.step_norm <= settings.clip_norm,
        strangers=len(ready ^ {node for nodes in groups.values() for node in nodes}),
    )


def expected_sum(
    binding: Binding, least: int, came: Mapping[Stage, set[int]]
) -> tuple[int, ...] | SecureReason:
    """Who must be in the sum of a group, or why there must be none, by the rules.

    Args:
        binding: of the group.
        least: survivors that it must have.
        came: by stage, whose valid reply came or would have, of all who might have been asked.
    """
    t, ring = binding.threshold, binding.ring

    def near(device: int, able: set[int]) -> int:
        return sum(other in able for other in ring[device])

    committed = set(came[Stage.INVITE])
    while few := {one for one in committed if near(one, committed) < t}:
        committed -= few
    if len(committed) < least:
        return SecureReason.BELOW_LEAST
    survivors = committed & came[Stage.COLLECT]
    if len(survivors) < least:
        return SecureReason.BELOW_LEAST
    confirmed = survivors & came[Stage.CONFIRM]
    able = {one for one in confirmed if near(one, confirmed) >= t}
    for revealing in (survivors, able, able & came[Stage.UNMASK]):
        if any(near(one, revealing) < t for one in committed):
            return SecureReason.BELOW_THRESHOLD
    return tuple(sorted(survivors))


def _groups(ran: Ran) -> dict[int, list[int]]:
    """Nodes by group and position, as they were invited."""
    found: dict[int, list[tuple[int, int]]] = {}
    for node, one in ran.invitations.items():
        found.setdefault(one.binding.group, []).append((one.position, node))
    return {number: [node for _, node in sorted(seats)] for number, seats in found.items()}


def _codes(rehearsal: Rehearsal, harm: Harm, node: int, binding: Binding) -> NDArray[np.int64]:
    """What a device's change is in steps, with its noise and without masks: int64 (d,)."""
    enrolment = rehearsal.enrolment(Path())
    assert enrolment is not None
    name = rehearsal.name(node)
    secret = RoundSecret(enrolment.round_secret(name, binding.digest))
    privacy, encoding, noise = binding.privacy, binding.encoding, None
    if privacy.mode == "devices":
        deviation = sigma(privacy.noise_multiplier, encoding, privacy.counted_on)
        noise = draw(Table.of(deviation), secret.noise_stream(binding.digest), encoding.size)
    change = rehearsal.change_of(name, harm.factor if node in harm.nodes else 1.0)
    flat = np.concatenate([change[one].ravel() for one in sorted(change)])
    return totals(encode(flat, encoding, secret.coins(binding.digest), noise), encoding)


def _is_absent(harm: Harm, node: int, stage: Stage) -> bool:
    """Whether a device gives no valid reply in this stage."""
    if harm.fault_of(node, f"0.{stage:d}") in _SILENT:
        return True
    lie = harm.lie if node in harm.nodes else None
    if node in harm.nodes and math.isnan(harm.factor):
        return stage is Stage.OFFER  # the device itself declines
    return isinstance(lie, StageLie) and lie.stage is stage and lie.effect == "absent"
