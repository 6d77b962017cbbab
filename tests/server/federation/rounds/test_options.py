"""Options by name become checked settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.options import OPTIONS, FederationOptions
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.private.settings import SecureSettings


def test_the_defaults_are_those_of_the_parts() -> None:
    options = FederationOptions.of({})
    assert options == FederationOptions()
    assert (options.settings, options.local) == (RoundSettings(), LocalConfig())


def test_every_option_arrives_where_it_belongs() -> None:
    changed: dict[str, Any] = {
        "rounds": 3, "clients-per-round": 7, "over-selection": 2, "least-replies": 2,
        "deadline": 5.0, "clip-norm": 0.5, "weighting": "declared", "largest-weight": 9.0,
        "aggregation": "mean",
        "shards": 5, "optimizer": "fedadam", "server-learning-rate": 0.1, "steps": 4,
        "batch-size": 3, "learning-rate": 0.01, "anchor-weight": 0.25, "opened-weight": 1,
        "typo-rate": 0.2, "proximal": 0.1, "client-init": "ema", "compress": False, "seed": 8,
        "gateways": 2, "mode": "buffered",
    }  # fmt: skip
    buffered = {"in-flight": 9, "most-staleness": 2}
    taught = {"hybrid-weight": 1, "hybrid-mistyped": 0.25}  # not beside opened results
    secure = {option.name for option in OPTIONS if option.help.startswith(("secure:", "privacy:"))}
    assert changed.keys() | buffered.keys() | secure | {"secure", *taught} == {
        option.name for option in OPTIONS
    }
    before = json.dumps(FederationOptions.of({}).to_dict())
    for name, value in changed.items():
        assert json.dumps(FederationOptions.of({name: value}).to_dict()) != before, name
    local = FederationOptions.of(taught).local
    assert (local.hybrid_loss_weight, local.hybrid_mistyped) == (1.0, 0.25)
    asynchronous = {"mode": "buffered"}
    before = json.dumps(FederationOptions.of(asynchronous).to_dict())
    for name, value in buffered.items():
        given = {**asynchronous, name: value}
        assert json.dumps(FederationOptions.of(given).to_dict()) != before, name
    found = FederationOptions.of(changed).to_dict()
    assert found["settings"]["over_selection"] == 2.0
    assert found["settings"]["optimizer"]["name"] == "fedadam"
    assert found["local"]["opened_loss_weight"] == 1.0


@pytest.mark.parametrize(
    "given",
    [{"rounds": "3"}, {"rounds": 0}, {"steps": 1.5}, {"compress": 1}, {"seed": -1},
     {"gateways": -1}, {"optimizer": "sgd"}, {"aggregation": "vote"}, {"learning-rate": -1.0},
     {"mode": "later"}, {"in-flight": -1}, {"mode": "buffered", "most-staleness": 9}],
)  # fmt: skip
def test_what_is_no_setting_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        FederationOptions.of(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"secure": "on"}, "mode is 'buffered' with secure on: masks cancel"),
        ({"privacy": "devices"}, "set secure to on"),
    ],
)
def test_buffered_rounds_are_refused_where_devices_must_answer_together(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        FederationOptions.of({"mode": "buffered", "enrolment": "0" * 64, **given})


def test_the_default_of_least_replies_gives_way_to_a_round_of_few() -> None:
    assert FederationOptions.of({"clients-per-round": 3}).settings.least_replies == 3
    assert FederationOptions.of({"clients-per-round": 30}).settings.least_replies == 5
    with pytest.raises(InvalidInputError, match="least_replies"):
        FederationOptions.of({"clients-per-round": 3, "least-replies": 4})


def test_a_server_draws_its_shards_anew_and_does_not_show_them() -> None:
    options = FederationOptions.of({"aggregation": "median", "shards": 5})
    first, second = options.with_secret_shards(), options.with_secret_shards()
    seeds = {one.settings.shard_seed for one in (options, first, second)}
    assert len(seeds) == 3
    assert first.to_dict() == options.to_dict()
    assert str(first.settings.shard_seed) not in json.dumps(first.to_dict())


SECURE: dict[str, Any] = {"secure": "on", "federation": "clinics", "enrolment": "ab" * 32}
NOISY: dict[str, Any] = {**SECURE, "clients-per-round": 200, "privacy": "devices"}


def test_plain_rounds_know_nothing_of_secure_sums() -> None:
    assert FederationOptions.of({}).secure is None
    shown = {option.name: option.default for option in OPTIONS}
    assert FederationOptions.of(shown) == FederationOptions()


# Values of the options that need a switch, which is their help's first word.
PRIVATE: dict[str, Any] = {
    "federation": "cd" * 16, "enrolment": "cd" * 32, "secure-neighbours": 200,
    "secure-least": 150, "secure-largest-group": 500, "secure-groups": 1,
    "stage-deadline": 30, "rest": 3, "privacy": "devices",
    "noise-multiplier": 4.0, "season": "2", "participations": 2, "season-rounds": 50,
    "epsilon": 1.0, "delta": 1e-7, "range": 0.5,
}  # fmt: skip
NEEDS = {
    option.name: option.help.partition(":")[0]
    for option in OPTIONS
    if option.help.startswith(("secure:", "privacy:"))
}


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_what_is_asked_of_private_rounds_is_refused_where_they_are_off(name: str) -> None:
    """Rounds without noise would look as if they had the epsilon that was set."""
    value = 5 if name == "secure-groups" else PRIVATE[name]
    switch = NEEDS[name]
    with pytest.raises(InvalidInputError, match=f"{name} is .* with {switch} off.*set {switch} to"):
        FederationOptions.of({name: value})
    quiet = {**SECURE, "clients-per-round": 200}
    if switch == "privacy":
        with pytest.raises(InvalidInputError, match=f"{name} is .* with privacy off"):
            FederationOptions.of({**quiet, name: value})
    else:
        assert FederationOptions.of({**quiet, name: value}).secure is not None


@pytest.mark.parametrize("given", [{"in-flight": 9}, {"most-staleness": 2}])
def test_what_is_asked_of_buffered_rounds_is_refused_of_synchronous_ones(
    given: dict[str, Any],
) -> None:
    (name,) = given
    with pytest.raises(
        InvalidInputError,
        match=f"{name} is . with mode synchronous, where it does nothing; set mode to buffered",
    ):
        FederationOptions.of(given)
    assert FederationOptions.of({**given, "mode": "buffered"}).settings.is_buffered


def test_every_option_of_secure_sums_arrives() -> None:
    assert PRIVATE.keys() == NEEDS.keys()
    plain = FederationOptions.of(NOISY)
    for name, value in PRIVATE.items():
        found = FederationOptions.of({**NOISY, name: value})
        assert (found == plain) == (name in ("secure-groups", "privacy")), name
        assert SecureSettings.from_dict(json.loads(json.dumps(found.to_dict()))["secure"]) == (
            found.secure
        )


def test_the_largest_group_has_two_devices_at_least() -> None:
    with pytest.raises(InvalidInputError, match="largest_group is 1"):
        FederationOptions.of({**NOISY, "secure-largest-group": 1})


def test_private_rounds_go_through_gateways_too() -> None:
    options = FederationOptions.of({**SECURE, "gateways": 2})
    assert (options.gateways, options.secure) == (2, FederationOptions.of(SECURE).secure)


def test_one_group_is_the_default_and_its_mean_is_taken() -> None:
    options = FederationOptions.of(SECURE)
    assert options.secure == SecureSettings(federation="clinics", enrolment="ab" * 32)
    assert (options.settings.shards, options.settings.aggregation) == (1, "mean")
    robust = FederationOptions.of({**SECURE, "clients-per-round": 200, "secure-groups": 10})
    assert (robust.settings.shards, robust.settings.aggregation) == (10, "median")


def test_noise_needs_a_hundred_devices_in_a_group() -> None:
    secure = FederationOptions.of(NOISY).secure
    assert secure is not None
    assert secure.least == 100


@pytest.mark.parametrize(
    ("given", "said"),
    [({"privacy": "devices"}, "secure off"), ({"secure": "yes"}, "one of off, on"),
     ({**SECURE, "largest-weight": 9.0}, "counts alike"),
     ({**SECURE, "weighting": "declared"}, "counts alike"),
     ({**SECURE, "compress": False}, "encoding of their own"),
     ({**SECURE, "shards": 5}, "secure-groups"), ({**SECURE, "client-init": "ema"}, "global"),
     ({**SECURE, "federation": ""}, "pocketquery enrol"),
     ({**SECURE, "enrolment": ""}, "pocketquery enrol"),
     ({**SECURE, "enrolment": "ab"}, "64 hexadecimal digits"),
     ({**SECURE, "aggregation": "trimmed_mean"}, "over one group"),
     ({**SECURE, "clients-per-round": 200, "secure-groups": 3}, "at least 5 for median"),
     ({**SECURE, "clients-per-round": 200, "secure-groups": 20}, "fewer groups"),
     ({**SECURE, "clients-per-round": 10}, "ask more devices"),
     ({**SECURE, "secure-neighbours": 85}, "even"), ({**SECURE, "rest": 0}, "rest is 0"),
     ({**SECURE, "stage-deadline": 0.0}, "stage_deadline"), ({**SECURE, "range": -1.0}, "range"),
     ({**NOISY, "clients-per-round": 99}, "at least 100 with noise"),
     ({**NOISY, "secure-groups": 5, "aggregation": "mean"}, "one group and the mean"),
     ({**NOISY, "aggregation": "trimmed_mean"}, "one group and the mean"),
     ({**NOISY, "participations": 11}, "at most the season's rounds"),
     ({**NOISY, "privacy": "server"}, "privacy is 'server', expected one of off, devices"),
     ({**NOISY, "delta": 1.0}, "below 1"), ({**NOISY, "epsilon": 0.0}, "above 0"),
     ({**NOISY, "noise-multiplier": 0.0}, "above 0")],
)  # fmt: skip
def test_what_cannot_be_a_secure_sum_is_refused_in_a_sentence(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        FederationOptions.of(given)
