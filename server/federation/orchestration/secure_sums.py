"""From what groups gave to the round's running sums: who is left out, and how far a step may go."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pocketquery.client.offer import Offer
from pocketquery.client.private.noise import rho
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.shards import LEAST_SHARDS
from pocketquery.server.private.accounting import least_honest
from pocketquery.server.private.budget import Charge
from pocketquery.server.private.coordinator import SecureReason, Skipped
from pocketquery.server.private.secure_round import SumGroup, planned_encoding
from pocketquery.server.private.settings import SecureSettings
from pocketquery.server.private.unmasking import Unmasked, norm_limit

__all__ = ["charge_of", "left_out", "skip", "with_sums"]

_OUTLIER = 2.0  # times the median of the groups' norms

_log = logging.getLogger(__name__)


def charge_of(settings: SecureSettings, offer: Offer, size: int, group: int) -> Charge:
    """What a round with noise and a group of so many devices costs.

    Args:
        settings: of the round.
        offer: what devices train on.
        size: values of a change.
        group: devices.

    Raises:
        InvalidInputError: no encoding fits.
    """
    neighbours = min(group - 1, settings.neighbours)
    honest = least_honest(neighbours, 3 * neighbours // 5 + 1)
    encoding = planned_encoding(settings, offer, size, group)
    spent = rho(settings.noise_multiplier, encoding, settings.counted_on(group))
    many = settings.counted_on(settings.largest_group)  # whatever is said of the group's size
    return settings.budget().charge(offer.round, counted_on=many, least_honest=honest, rho=spent)


def left_out(opened: OpenRound, reason: SecureReason, count: int = 1) -> OpenRound:
    """``opened`` with so many more replies that were left out."""
    known = opened.quarantined.get(reason.value, 0)
    return replace(opened, quarantined={**opened.quarantined, reason.value: known + count})


def skip(opened: OpenRound, number: int, count: int, skipped: Skipped) -> OpenRound:
    """``opened`` without a group, of whose devices ``count`` were in it still."""
    _log.warning(
        "round %d: group %d is left out, %s: %s",
        opened.state.round,
        number,
        skipped.reason.value,
        skipped.detail,
    )
    return left_out(opened, skipped.reason, count)


def with_sums(opened: OpenRound, results: Mapping[int, Unmasked | Skipped]) -> OpenRound:
    """``opened`` with the groups' sums as its shards, and what its step may be.

    Of three groups and more, one whose mean is longer than twice the median of all is left out.

    Args:
        opened: whose groups are those of ``results``.
        results: by number of the group.
    """
    assert opened.secure is not None
    groups = opened.secure.groups
    for number, result in results.items():
        for place in result.blamed:  # named: the authority needs it to revoke the device
            key = groups[number].sum.certificates[place].key.hex()
            _log.warning(
                "round %d: the device %s gave or dealt wrong shares", opened.state.round, key
            )
            if isinstance(result, Unmasked):  # else it is counted with its group
                opened = left_out(opened, SecureReason.BAD_SHARE)
    for number, result in _without_outliers(groups, results).items():
        group = groups[number].sum
        if isinstance(result, Skipped):
            opened = skip(opened, number, len(group.survivors), result)
            continue
        opened = _with_sum(opened, number, result, group.binding.encoding.exponent)
        limit = max(norm_limit(group), opened.settings.largest_step or 0.0)
        opened = replace(opened, settings=replace(opened.settings, largest_step=limit))
    return opened


def _without_outliers(
    groups: Mapping[int, SumGroup], results: Mapping[int, Unmasked | Skipped]
) -> dict[int, Unmasked | Skipped]:
    norms = {
        number: _mean_norm(groups[number], result)
        for number, result in results.items()
        if isinstance(result, Unmasked)
    }
    found = dict(results)
    if len(norms) < LEAST_SHARDS:
        return found
    most = _OUTLIER * statistics.median(norms.values())
    for number, norm in norms.items():
        if norm > most:
            said = f"the mean has norm {norm:g}, twice the groups' median is {most:g}"
            found[number] = Skipped(SecureReason.SUM_NORM, said)
    return found


def _mean_norm(group: SumGroup, result: Unmasked) -> float:
    steps = math.sqrt(float(np.square(result.totals.astype(np.float64)).sum()))
    return steps * group.sum.binding.encoding.step / len(result.survivors)


def _with_sum(opened: OpenRound, number: int, found: Unmasked, exponent: int) -> OpenRound:
    """The round with a group's sum; with noise, the mean is over the devices that were wanted, for
    how many survived is not to change what one of them can move."""
    assert opened.secure is not None
    wanted = opened.settings.clients_per_round if opened.secure.settings.is_noisy else None
    bits, count = opened.settings.bits(), len(found.survivors)
    shards = list(opened.shards)
    shards[number] = RunningSum.of_totals(found.totals, exponent, count, shares=wanted, bits=bits)
    return replace(opened, shards=tuple(shards))
