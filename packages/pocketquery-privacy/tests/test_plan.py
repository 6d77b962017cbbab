"""What a plan says: known figures of bytes, graph, signal and loss, and what it refuses."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from pocketquery.client.device_files import rules_of
from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.encoding import choose_encoding
from pocketquery.client.private.ledger import Account, cost_of, epsilon_of
from pocketquery.client.private.noise import counted_on
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.private.accounting import epsilon_of_zcdp, rho_of
from pocketquery_privacy.plan import (
    Plan,
    Wanted,
    multiplier_for,
    participations_needed,
    plan,
)
from pocketquery_privacy.round_costs import (
    bytes_down,
    bytes_up,
    overrun_risk,
    unrecoverable_risk,
)


@pytest.mark.parametrize(
    ("wanted", "once", "five_times"), [(1, 4.53, 10.13), (2, 2.38, 5.33), (4, 1.27, 2.835)]
)
def test_the_multiplier_for_an_epsilon(wanted: float, once: float, five_times: float) -> None:
    """A little more than exact accounting of Gaussian noise asks for: 4.23 and 9.45, 2.23 and 4.99,
    1.19 and 2.67."""
    assert multiplier_for(wanted, 1, 1e-6) == pytest.approx(once, abs=0.006)
    assert multiplier_for(wanted, 5, 1e-6) == pytest.approx(five_times, abs=0.006)


@pytest.mark.parametrize(
    ("fleet", "cohort", "needed"),
    [
        (1_000, 100, (1, 5, 20)),
        (10_000, 100, (1, 1, 2)),
        (10_000, 1_000, (1, 5, 20)),
        (100_000, 1_000, (1, 1, 2)),
        (100_000, 10_000, (1, 5, 20)),
        (1_000_000, 1_000, (1, 1, 1)),
        (1_000_000, 10_000, (1, 1, 2)),
    ],
)
def test_participations_needed(fleet: int, cohort: int, needed: tuple[int, ...]) -> None:
    """In 10, 50 and 200 rounds."""
    assert tuple(participations_needed(t, cohort, fleet) for t in (10, 50, 200)) == needed


def test_the_multiplier_is_the_least_that_does() -> None:
    """What it costs is at most what was wanted, and hardly less."""
    multiplier = multiplier_for(2.0, 3, 1e-7)
    found = epsilon_of_zcdp(rho_of(multiplier, 3), 1e-7)
    assert found <= 2.0
    assert found == pytest.approx(2.0, abs=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: multiplier_for(0.0, 1, 1e-6), "epsilon is 0.0"),
        (lambda: multiplier_for(1e-9, 1, 1e-12), "ask for a larger one"),
        (lambda: participations_needed(10, 200, 100), "cohort is 200 of 100"),
    ],
)
def test_what_no_noise_and_no_fleet_reaches(call: Callable[[], float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize(
    ("group", "neighbours", "threshold", "down", "up", "small_down", "small_up"),
    [
        (20, 19, 12, 81_152, 79_346, 16_836, 14_834),
        (100, 84, 51, 96_640, 95_011, 32_324, 30_499),
        (1_000, 84, 51, 96_864, 95_011, 32_548, 30_499),
        (10_000, 84, 51, 99_114, 95_011, 34_798, 30_499),
        (1_000, 200, 121, 124_474, 122_967, 60_158, 58_455),
    ],
)
def test_bytes_of_a_round(
    group: int, neighbours: int, threshold: int, down: int, up: int, small_down: int, small_up: int
) -> None:
    """As the specification's prototype and 64 bytes a neighbour for shares, within the length of a
    binding: both adapters."""
    graph = (group, neighbours, threshold)
    full = choose_encoding(36_864, group, 1.0, 0.0125)
    small = choose_encoding(2_304, group, 1.0, 0.0125)
    assert bytes_down(74_816, *graph, full) == pytest.approx(down, abs=700)
    assert bytes_up(*graph, full) == pytest.approx(up, abs=100)
    assert bytes_down(10_500, *graph, small) == pytest.approx(small_down, abs=700)
    assert bytes_up(*graph, small) == pytest.approx(small_up, abs=100)


@pytest.mark.parametrize(
    ("graph", "colluding", "gone"),
    [
        ((20, 19, 12), (None, None), (0, 0, 0)),
        ((100, 84, 51), (None, None), (0, 0, 0)),
        ((1_000, 84, 51), (-50, -16), (3.4e-12, 5.2e-3, 1)),
        ((1_000, 200, 121), (None, -66), (1.1e-40, 1e-10, 0.49)),
        ((10_000, 84, 51), (-31, -10), (1.6e-9, 0.13, 1)),
        ((10_000, 200, 121), (-89, -37), (8.2e-26, 4.5e-7, 1)),
    ],
)
def test_risks_of_a_graph(
    graph: tuple[int, int, int], colluding: tuple[int | None, ...], gone: tuple[float, ...]
) -> None:
    """The specification's table: 2 and 5 % collude (powers of two); 10, 20, 30 % vanish."""
    for share, power in zip((0.02, 0.05), colluding, strict=True):
        risk = overrun_risk(*graph, share)
        assert risk == 0 if power is None else math.log2(risk) == pytest.approx(power, abs=0.5)
    for share, expected in zip((0.1, 0.2, 0.3), gone, strict=True):
        assert unrecoverable_risk(*graph, share) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("cohort", "full", "small"), [(100, 0.12, 0.33), (1_000, 1.2, 3.3), (10_000, 9.6, 33)]
)
def test_signal_to_noise(cohort: int, full: float, small: float) -> None:
    """At multiplier 2; at 10,000 the full adapter's step costs it a fifth, as Delta says."""
    for adapter, expected in (("full", full), ("small", small)):
        found = _plan(cohort=cohort, fleet=10**6, adapter=adapter, largest_group=cohort)
        assert found.signal_to_noise == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("cohort", "loss"), [(100, 7.91), (300, 0.73), (1_000, 0.22), (10_000, 0.0)]
)
def test_the_loss_is_the_measured_one_where_it_was_measured(cohort: int, loss: float) -> None:
    """Ten rounds at multiplier 2; between, it is between."""
    found = _plan(cohort=cohort, fleet=10**6, largest_group=cohort)
    assert found.expected_loss == pytest.approx(loss, abs=0.06)
    between = _plan(cohort=600, fleet=10**6).expected_loss
    assert between is not None
    assert 0.22 < between < 0.73


def test_more_noise_than_was_measured_has_no_expected_loss() -> None:
    """It says so, and says what to do."""
    found = _plan(cohort=100, fleet=10**6, noise_multiplier=8.0)
    assert found.expected_loss is None
    assert any("take the small one" in text for text in found.warnings)
    small = _plan(cohort=100, fleet=10**6, noise_multiplier=8.0, adapter="small")
    assert small.expected_loss is None
    assert any("loss is not known" in text for text in small.warnings)


def test_a_server_that_deviates_is_held_by_the_devices_largest_group() -> None:
    """It may say that a group is as large as that; larger cohorts have noise to spare."""
    found = {
        (cohort, largest): _plan(
            cohort=cohort, largest_group=largest, noise_multiplier=2.4, adapter="small"
        )
        for cohort, largest in ((100, None), (100, 1_000), (1_000, None), (10_000, None))
    }
    against = [one.epsilon["M"] for one in found.values()]
    assert against == pytest.approx([2.76, 10.18, 10.18, 10.18], abs=0.0051)
    assert [one.largest_group for one in found.values()] == [100, 1_000, 1_000, 1_000]
    assert len({round(one.epsilon["H"], 3) for one in found.values()}) == 1
    large, least = found[10_000, None], found[1_000, None]
    assert large.final_noise == pytest.approx(least.final_noise / 10**0.5, rel=0.01)
    assert any("at least 3.2 times the noise it would need" in text for text in large.warnings)
    assert not any("would need" in text for text in least.warnings)
    raised = {
        largest: " ".join(_plan(cohort=10_000, largest_group=largest, adapter="small").warnings)
        for largest in (1_000, 10_000)
    }
    assert "largest-group is below 10,000 declines once it has trained" in raised[10_000]
    assert "declines" not in raised[1_000]


def test_an_epsilon_wanted_is_kept() -> None:
    """The multiplier is rounded to the safe side; both adversaries are told."""
    found = _plan(noise_multiplier=None, epsilon=2.0, fleet=10**6, rounds=20)
    assert 1.97 < found.epsilon["R"] == found.epsilon["H"] <= 2.0
    assert found.epsilon["M"] > found.epsilon["H"]


@pytest.mark.parametrize(
    ("rounds", "participations", "wanted"),
    [
        (10, 1, {"epsilon": 2.0}),
        (50, 5, {"noise_multiplier": 2.0}),
        (100, 2, {"epsilon": 4.0}),
    ],
)
def test_devices_with_the_options_printed_take_part_in_all_rounds_planned(
    rounds: int,
    participations: int,
    wanted: dict[str, float],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By their own rules and ledger, as often as is planned, and no more often than that."""
    arguments = ["--devices", "100000", "--cohort", "1000", "--rounds", str(rounds)]
    arguments += ["--participations", str(participations)]
    for name, value in wanted.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    assert main(["privacy", "plan", *arguments]) == 0
    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if line.startswith("devices: "))
    given = tomllib.loads(line.removeprefix("devices: ").replace(" ", "\n"))
    rules = rules_of({"enrolment": "authority.pem", "certificate": "phone.certificate", **given})
    assert rules is not None
    found = _plan(fleet=100_000, rounds=rounds, participations=participations,
                  **({"noise_multiplier": None} | wanted))  # fmt: skip
    z = found.noise_multiplier
    privacy = Privacy("devices", z, counted_on(1_000), "1", participations)
    encoding = choose_encoding(36_864, 1_000, 1.0, 0.0125, z)
    account, taken = Account(), []
    for number in range(rounds):
        if rules.of_offer(privacy, number, account) is None:
            account = account.charged(number, privacy, cost_of(privacy, encoding))
            assert epsilon_of(account.rho, rules.delta) <= rules.epsilon
            taken.append(number)
    assert len(taken) == participations
    assert (rules.neighbours, rules.largest_group) == (84, 1_000)
    assert rules.epsilon == pytest.approx(found.ledger_epsilon, abs=0.02)


def test_a_fleet_that_is_too_small_is_refused() -> None:
    """Its devices rest; the message names a cohort that does."""
    with pytest.raises(InvalidInputError, match="cohorts of at most 200"):
        _plan(fleet=1_000, cohort=300)
    assert _plan(fleet=1_000, cohort=200).participations == 2
    with pytest.raises(InvalidInputError, match="but 1 are possible"):
        _plan(fleet=1_000, cohort=200, participations=1)


def test_enough_devices_are_asked_where_many_must_decline() -> None:
    """Of 20,000 devices 9,000 have taken part before the last of ten rounds of 1,000; of a fleet
    that rests for 8 rounds, seven rounds' devices; never more than there are."""
    assert _plan(fleet=20_000).over_selection == pytest.approx(1.25 / 0.55)
    assert _plan(fleet=20_000, participations=2).over_selection == pytest.approx(1.25 / 0.65)
    assert _plan(fleet=10_000).over_selection == 10
    assert _plan(fleet=10**6, rounds=1).over_selection == 1.25


def test_warnings_name_what_is_weak() -> None:
    """Delta, epsilon, the fleet's spare, bytes, and a server that deviates."""
    said = " ".join(
        _plan(fleet=1_000, cohort=100, delta=1e-2, noise_multiplier=0.3, neighbours=200).warnings
    )
    assert "above 1 / 1000" in said
    assert "promises little" in said
    assert "100% of all participations" in said
    wide = " ".join(_plan(fleet=10**6, cohort=1_000, neighbours=200).warnings)
    assert "bytes down a round are more than 100,000" in wide
    deviating = " ".join(_plan(fleet=10**6, cohort=1_000).warnings)
    assert "only 35 devices' noise is certain" in deviating
    tight = " ".join(_plan(fleet=10**6, cohort=105, adapter="small").warnings)
    assert "skipped where more than 5 of 105 are lost" in tight
    assert _plan(fleet=10**6, cohort=125, adapter="small").warnings == ()
    assert _plan(fleet=10**6, cohort=400, noise_multiplier=2.4).warnings == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cohort": 99}, "cohort is 99, expected at least 100"),
        ({"epsilon": 2.0}, "both or neither"),
        ({"noise_multiplier": None}, "both or neither"),
        ({"adapter": "none"}, "adapter is 'none'"),
        ({"fleet": 0}, "fleet is 0"),
        ({"cohort": 2_000, "fleet": 1_000}, "cohort is 2000 of 1000"),
        ({"cohort": 20_000}, "be summed in 16 bits; .* or raise largest-group"),
        ({"noise_multiplier": 1e-3}, "expected at least 2; raise noise_multiplier"),
    ],
)
def test_what_no_federation_can_be_is_refused(change: dict[str, Any], message: str) -> None:
    """Each with what was found."""
    with pytest.raises(InvalidInputError, match=message):
        _plan(**({"fleet": 100_000} | change))


def test_the_command_prints_settings_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    """For people; the options named are those of the rounds."""
    arguments = ["privacy", "plan", "--devices", "100000", "--cohort", "1000", "--epsilon", "2"]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "not reviewed by an outside cryptographer" in printed.err
    assert "--privacy devices" in printed.out
    assert 'secure="required"' in printed.out
    assert "epsilon, H" in printed.out
    assert "delta 1e-06 a season" in printed.out
    options = _options(printed.out)
    from pocketquery.server.federation.rounds.options import FederationOptions

    made = FederationOptions.of({**options, "enrolment": "00" * 32})
    assert made.secure is not None
    assert made.secure.budget().participations == 1
    assert made.secure.largest_group == 1_000


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The source of the figures stands in it."""
    arguments = ["privacy", "plan", "--devices", "100000", "--cohort", "1000", "--rounds", "50"]
    assert main([*arguments, "--noise-multiplier", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["epsilon"]["R"] == found["epsilon"]["H"] == pytest.approx(1.14, abs=0.01)
    assert "benchmarks/privacy_utility.py" in found["source"]
    assert main(["privacy", "plan", "--devices", "1000", "--cohort", "50", "--epsilon", "2"]) == 2
    assert "at least 100" in capsys.readouterr().err


def _plan(**given: Any) -> Plan:
    values: dict[str, Any] = {"fleet": 10**6, "cohort": 1_000, "noise_multiplier": 2.0}
    return plan(Wanted(**(values | given)))


def _options(printed: str) -> dict[str, Any]:
    """The options of the line for the server, in their kinds."""
    from pocketquery.server.federation.rounds.options import OPTIONS

    line = next(line for line in printed.splitlines() if line.startswith("server:"))
    words = line.removeprefix("server:").split()
    kinds = {one.name: type(one.default) for one in OPTIONS}
    given = {
        name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }
    return {name: kinds[name](value) for name, value in given.items()}
