"""What a private federation would cost and carry, before it begins: ``pocketquery privacy plan``.

Epsilon, participations, noise and bytes are computed with the code that runs the rounds. Expected
signal and loss come from one measurement (utility.py); another encoder or other users differ.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.encoding import Encoding, choose_encoding, value_range
from pocketquery.client.private.ledger import Account, cost_of, epsilon_of
from pocketquery.client.private.noise import counted_on, rho, sigma
from pocketquery.client.private.rules import DeviceRules
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery.sdk.validation import check, check_fields, number, optional, whole
from pocketquery.server.private.accounting import (
    epsilon_of_zcdp,
    least_honest,
    rho_of,
)
from pocketquery_privacy.round_costs import (
    bytes_down,
    bytes_up,
    overrun_risk,
    unrecoverable_risk,
)
from pocketquery_privacy.utility import (
    ADAPTERS,
    expected_loss,
    is_advised,
    noise_after,
)

__all__ = ["Plan", "Wanted", "multiplier_for", "participations_needed", "plan"]

from pocketquery.server.private.settings import LEAST_COHORT

_WARNED_BYTES = 100_000
_WEAK_EPSILON = 8.0
_LARGEST_MULTIPLIER = 1e4
_MOST_SHARE_USED = (
    0.7  # of all allowed participations; the rest of the fleet is asleep, offline or declines
)
_ADVISED_COHORT = 125  # of which devices insist on four fifths, and on 100
_COLLUDING_SHARES = (0.02, 0.05)
_GONE_SHARES = (0.1, 0.2, 0.3)
_WARNED_PROBABILITY = 2**-20
_ADVISED_OVER_SELECTION = 1.25


@dataclass(frozen=True)
class Wanted(Settings):
    """What a plan is made for.

    Raises:
        InvalidInputError: a value out of its range, not one of epsilon and multiplier, or a cohort
            below 100.
    """

    fleet: Annotated[int, whole(), "that may take part at all", Option("N", "devices")]
    cohort: Annotated[int, whole(), "devices a round, from 100"]
    rounds: Annotated[int, whole(), "of the season"] = 10
    epsilon: Annotated[
        float | None, number(above=0), "that a season may cost", Option(either="noise")
    ] = None
    noise_multiplier: Annotated[
        float | None, number(above=0), "noise to plan with", Option(either="noise")
    ] = None
    delta: Annotated[float, number(above=0, below=1), "of epsilon"] = 1e-6
    participations: Annotated[int | None, whole(), "of a device (default: as few as do)"] = None
    adapter: Annotated[Literal["full", "small"], "small: rank 1, up alone"] = "full"
    largest_group: Annotated[
        int | None,
        whole(2),
        "that a group counts as at most, by the devices' rule (default: the cohort, to 1,000)",
    ] = None
    neighbours: Annotated[int, whole(2), "in the masks' graph"] = 84
    rest: Annotated[int, whole(), "rounds between two of a device"] = 8
    clip_norm: Annotated[float, number(above=0), "largest L2 norm of a change"] = 1.0
    steps: Annotated[int, whole(), "training steps on a device"] = 10
    learning_rate: Annotated[float, number(above=0), "on the device"] = 1e-3

    def __post_init__(self) -> None:
        """Check each value, and those that depend on each other."""
        super().__post_init__()
        check_fields(self, participations=optional(whole(1, self.rounds)))
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise InvalidInputError(
                "found both or neither of epsilon and noise_multiplier, expected one: the other "
                "follows from it"
            )
        if self.cohort < LEAST_COHORT:
            raise InvalidInputError(
                f"cohort is {self.cohort}, expected at least {LEAST_COHORT} with noise: of fewer "
                "devices the noise leaves nothing to learn, and sums of them hide little without"
            )


@dataclass(frozen=True)
class Plan:
    """What follows.

    Attributes:
        wanted: what it was made for.
        participations: of a device in the season, at most.
        share_used: of all participations that the fleet's ledgers allow, the share the rounds need.
        over_selection: how many times the cohort to ask, for devices that rest or have spent their
            participations decline, which the server does not know beforehand.
        noise_multiplier: z.
        epsilon: by adversary.
        ledger_epsilon: what a device's own ledger counts for the same, rounded up. A device with a
            lower limit declines.
        neighbours, threshold: of the graph of masks.
        least_honest: honest devices in any sum that a deviating server can learn.
        largest_group: the devices' own rule, on which epsilon against that server rests.
        step_exponent, bits: of the encoding; the step is 2**-step_exponent.
        sigma_steps: standard deviation of one device's noise in steps.
        overrun: by share of colluding devices, the probability that a device has more colluding
            neighbours than ``threshold`` withstands, at most.
        unrecoverable: by share of devices that vanish after dealing, the probability that the
            round is skipped, at most.
        bytes_down, bytes_up: of a device in a round, Flower's framing included.
        signal_to_noise: of one round's mean, norm over norm.
        final_noise: per value of the adapter after all rounds, over the clipping norm.
        expected_loss: points of nDCG@10 the noise costs; None beyond what was measured.
        gain: points gained without noise where that was measured.
        warnings: sentences.
    """

    wanted: Wanted
    participations: int
    share_used: float
    over_selection: float
    noise_multiplier: float
    epsilon: dict[str, float]
    ledger_epsilon: float
    neighbours: int
    threshold: int
    least_honest: int
    largest_group: int
    overrun: dict[str, float]
    unrecoverable: dict[str, float]
    step_exponent: int
    bits: int
    sigma_steps: float
    bytes_down: int
    bytes_up: int
    signal_to_noise: float
    final_noise: float
    expected_loss: float | None
    gain: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return asdict(self) | {"source": ADAPTERS[self.wanted.adapter].source}


def plan(request: Wanted) -> Plan:
    """The plan for ``request``.

    Raises:
        InvalidInputError: no such federation can be: the noise of a device would be below two
            steps, no step fits, or the fleet is too small for its participations.
        MissingExtraError: dp-accounting is not installed.
    """
    adapter, cohort, rounds = ADAPTERS[request.adapter], request.cohort, request.rounds
    times = _participations(request)
    z = request.noise_multiplier
    if z is None:
        assert request.epsilon is not None
        z = multiplier_for(request.epsilon, times, request.delta)
        z = math.ceil(z * 100) / 100  # two digits, to the safe side
    largest = request.largest_group or min(cohort, DeviceRules.largest_group)
    counted = counted_on(min(cohort, largest))
    encoding = choose_encoding(
        adapter.values,
        cohort,
        request.clip_norm,
        value_range(request.steps, request.learning_rate),
        z,
        counted,
    )
    neighbours = min(cohort - 1, request.neighbours)
    threshold = 3 * neighbours // 5 + 1
    honest = least_honest(neighbours, threshold)
    graph = (cohort, neighbours, threshold)
    noise = [noise_after(t, z, encoding, cohort, counted) for t in (1, rounds)]
    planned = Plan(
        wanted=request,
        participations=times,
        share_used=rounds * cohort / (request.fleet * times),
        over_selection=_over_selection(request, times),
        noise_multiplier=z,
        epsilon=_epsilons(request, encoding, z, times, counted, counted_on(largest) / honest),
        ledger_epsilon=_ledger_epsilon(request, encoding, z, times, counted),
        neighbours=neighbours,
        threshold=threshold,
        least_honest=honest,
        largest_group=largest,
        overrun={f"{one:g}": overrun_risk(*graph, one) for one in _COLLUDING_SHARES},
        unrecoverable={f"{one:g}": unrecoverable_risk(*graph, one) for one in _GONE_SHARES},
        step_exponent=encoding.exponent,
        bits=encoding.bits,
        sigma_steps=sigma(z, encoding, counted),
        bytes_down=bytes_down(adapter.release_bytes, *graph, encoding),
        bytes_up=bytes_up(*graph, encoding),
        signal_to_noise=adapter.signal / (noise[0] * math.sqrt(adapter.values)),
        final_noise=noise[1],
        expected_loss=expected_loss(adapter, noise[1]),
        gain=adapter.gain,
        warnings=(),
    )
    return Plan(**{**vars(planned), "warnings": tuple(_warnings(planned))})


def participations_needed(rounds: int, cohort: int, fleet: int) -> int:
    """How often the most frequent of ``fleet`` devices takes part, at least, in ``rounds``."""
    for name, value in (("rounds", rounds), ("cohort", cohort), ("fleet", fleet)):
        check(name, value, whole())
    if cohort > fleet:
        raise InvalidInputError(
            f"the cohort is {cohort} of {fleet} devices, expected at most as many as there are"
        )
    return -(-rounds * cohort // fleet)


def _participations(request: Wanted) -> int:
    """How often a device takes part, where its ledger and its rest allow that."""
    needed = participations_needed(request.rounds, request.cohort, request.fleet)
    times = request.participations or needed
    possible = -(-request.rounds // request.rest)
    if needed > min(times, possible):
        most = request.fleet * min(times, possible) // request.rounds
        raise InvalidInputError(
            f"{request.rounds} rounds of {request.cohort} need {needed} participations of each of "
            f"{request.fleet} devices, but {min(times, possible)} are possible ({request.rest} "
            f"rounds apart); take cohorts of at most {most}, fewer rounds, or a larger fleet"
        )
    return times


def _over_selection(request: Wanted, times: int) -> float:
    """A quarter more than the cohort among those that may take part in the last round."""
    share = request.cohort / request.fleet
    spent = (request.rounds - 1) * share / times
    resting = (min(request.rounds, request.rest) - 1) * share
    willing = 1.0 - max(spent, resting)
    return min(_ADVISED_OVER_SELECTION / willing if willing > 0 else math.inf, 1 / share)


def multiplier_for(target: float, participations: int, delta: float) -> float:
    """The least noise multiplier whose season costs at most ``target``, against H and R.

    Raises:
        InvalidInputError: an epsilon that is not above 0, or that no multiplier reaches.
        MissingExtraError: dp-accounting is not installed.
    """
    check("epsilon", target, number(above=0))

    def epsilon_of(multiplier: float) -> float:
        return epsilon_of_zcdp(rho_of(multiplier, participations), delta)

    low, high = 1e-3, 1.0
    while epsilon_of(high) > target:
        low, high = high, 2.0 * high
        if high > _LARGEST_MULTIPLIER:
            raise InvalidInputError(
                f"epsilon is {target:g} at delta {delta:g}, which no noise multiplier up to "
                f"{_LARGEST_MULTIPLIER:g} reaches; ask for a larger one"
            )
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of(middle) > target else (low, middle)
    return high


def _epsilons(
    request: Wanted, encoding: Encoding, z: float, times: int, counted: int, missing: float
) -> dict[str, float]:
    cost = times * rho(z, encoding, counted)
    curious = epsilon_of_zcdp(cost, request.delta)
    deviating = epsilon_of_zcdp(cost * max(1.0, missing), request.delta)
    return {"H": curious, "M": deviating, "R": curious}


def _ledger_epsilon(
    request: Wanted, encoding: Encoding, z: float, times: int, counted: int
) -> float:
    privacy = Privacy("devices", float(z), counted, "1", times)
    account = Account(spent=times * cost_of(privacy, encoding))
    return epsilon_of(account.rho, request.delta)


def _warnings(plan: Plan) -> list[str]:
    request, adapter = plan.wanted, ADAPTERS[plan.wanted.adapter]
    warnings = []
    if plan.share_used > _MOST_SHARE_USED:
        warnings.append(
            f"The rounds need {plan.share_used:.0%} of all participations that the fleet's "
            "ledgers allow; devices that are off, charging elsewhere or decline are missing then. "
            "Allow more participations, or take smaller cohorts."
        )
    lost = request.cohort - max(LEAST_COHORT, -(-8 * request.cohort // 10))
    if lost < request.cohort // 10:
        warnings.append(
            f"Devices insist on {LEAST_COHORT} survivors, so the round is skipped where more than "
            f"{lost} of {request.cohort} are lost after training; ask for {_ADVISED_COHORT}."
        )
    if request.adapter == "full" and not is_advised(adapter, plan.final_noise):
        warnings.append(
            "The full adapter was not seen to gain under this noise; take the small one (export "
            "--adapter-rank 1 --adapter-train up), larger cohorts, or less noise."
        )
    elif plan.expected_loss is None:
        warnings.append("Nothing was measured under this much noise; the loss is not known.")
    spent = plan.epsilon["R"]
    if spent > _WEAK_EPSILON:
        warnings.append(f"Epsilon {spent:.1f} promises little; {_WEAK_EPSILON:g} is much already.")
    if plan.epsilon["M"] > _WEAK_EPSILON:
        warnings.append(
            f"Against a server that deviates only {plan.least_honest} devices' noise is certain, "
            f"and epsilon is {plan.epsilon['M']:.1f}: more neighbours (--neighbours 200), or "
            "more noise by a smaller --largest-group, lower it."
        )
    if plan.largest_group < request.cohort:
        more = math.sqrt(request.cohort / plan.largest_group)
        warnings.append(
            f"A group counts as one of {plan.largest_group:,}, so the sum of {request.cohort:,} "
            f"has at least {more:.1f} times the noise it would need: devices cannot check how many "
            "there are. A larger --largest-group lowers it, and raises epsilon against a server "
            "that deviates."
        )
    if min(plan.largest_group, request.cohort) > (default := DeviceRules.largest_group):
        warnings.append(
            f"Devices let a group count as one of {default:,}, unless they are told otherwise: one "
            f"whose largest-group is below {plan.largest_group:,} declines once it has trained, "
            "and why stands in its own log alone. Set it on every device before the server."
        )
    if (risk := plan.overrun[f"{_COLLUDING_SHARES[-1]:g}"]) > _WARNED_PROBABILITY:
        warnings.append(
            f"With {_COLLUDING_SHARES[-1]:.0%} of the devices colluding, some device has more "
            "colluding neighbours than the threshold withstands with a probability of up to "
            f"{risk:.1g}; "
            "more neighbours lower it."
        )
    if request.delta > 1 / request.fleet:
        warnings.append(
            f"Delta {request.delta:g} is above 1 / {request.fleet}: it would allow one device to "
            "be disclosed altogether."
        )
    for way, count in (("down", plan.bytes_down), ("up", plan.bytes_up)):
        if count > _WARNED_BYTES:
            warnings.append(f"{count:,} bytes {way} a round are more than {_WARNED_BYTES:,}.")
    return warnings
