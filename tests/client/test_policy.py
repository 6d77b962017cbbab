from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.policy import DeviceReading, Guard, Policy
from pocketquery.sdk.errors import InvalidInputError

GOOD = DeviceReading(idle=True, charging=True, unmetered=True, temperature_c=30.0)
NAMES = ("idle", "charging", "unmetered", "temperature_c")
switches = st.sampled_from([None, True, False])
readings = st.builds(
    DeviceReading,
    idle=switches,
    charging=switches,
    unmetered=switches,
    temperature_c=st.none() | st.floats(),
)


class Device:
    """A device whose reading is set by hand, and which counts how often it is asked."""

    def __init__(self, reading: DeviceReading = GOOD) -> None:
        self.reading = reading
        self.asked = 0

    def read(self) -> DeviceReading:
        self.asked += 1
        return self.reading


class Clock:
    """Seconds set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_device_at_rest_may_train() -> None:
    assert Policy().refusal(GOOD, examples=16) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"idle": False}, "in use"),
        ({"charging": False}, "not charging"),
        ({"unmetered": False}, "metered network"),
        ({"temperature_c": 45.1}, r"45\.1 °C, at most 45 are allowed"),
        ({"idle": None}, "idle is unknown.*allow_unknown"),
        ({"charging": None}, "charging is unknown"),
        ({"unmetered": None}, "unmetered is unknown"),
        ({"temperature_c": None}, "temperature_c is unknown"),
        ({"temperature_c": math.nan}, "temperature_c is unknown"),
        ({"temperature_c": -math.inf}, "temperature_c is unknown"),
    ],
)
def test_every_condition_refuses(change: dict[str, bool | float | None], reason: str) -> None:
    device = replace(GOOD, **change)  # type: ignore[arg-type]
    refusal = Policy().refusal(device, examples=16)
    assert re.search(reason, str(refusal)), refusal


@pytest.mark.parametrize("name", NAMES)
def test_what_may_be_unknown_is_no_reason_but_what_is_bad_still_is(name: str) -> None:
    policy = Policy(allow_unknown=(name,))
    assert policy.refusal(replace(GOOD, **{name: None}), examples=16) is None
    bad = 99.0 if name == "temperature_c" else False
    assert policy.refusal(replace(GOOD, **{name: bad}), examples=16)  # type: ignore[arg-type]


@given(readings, st.integers(0, 40))
def test_it_trains_only_where_all_is_known_to_be_well(device: DeviceReading, examples: int) -> None:
    refused = Policy().refusal(device, examples=examples)
    well = device.idle and device.charging and device.unmetered
    temperature = device.temperature_c
    cool = temperature is not None and -math.inf < temperature <= 45
    assert (refused is None) == bool(well and cool and examples >= 16)


@given(readings)
def test_without_conditions_any_device_may_train(device: DeviceReading) -> None:
    assert Policy.always().refusal(device, examples=1) is None


def test_only_what_is_asked_for_counts() -> None:
    in_use = DeviceReading(idle=False, charging=True, unmetered=False, temperature_c=99.0)
    policy = Policy(idle=False, unmetered=False, max_temperature_c=None)
    assert policy.refusal(in_use, examples=16) is None
    assert policy.refusal(replace(in_use, charging=False), examples=16)


def test_without_readings_everything_is_unknown() -> None:
    assert "unknown" in str(Policy().refusal(None, examples=16))
    assert Policy(allow_unknown=NAMES).refusal(None, examples=16) is None
    assert Policy.always().refusal(None, examples=1) is None


def test_too_few_queries_refuse_before_the_device_is_asked() -> None:
    device = Device()
    assert Policy().refusal(device, examples=3) == (
        "3 queries to learn from, at least 16 are needed"
    )
    assert Policy.always().refusal(device, examples=0)
    assert Policy.always().refusal(device, examples=1) is None
    assert device.asked == 0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"min_examples": 0}, "min_examples"),
        ({"max_seconds": 0.0}, "max_seconds"),
        ({"max_seconds": math.nan}, "max_seconds"),
        ({"max_seconds": math.inf}, "max_seconds"),
        ({"max_temperature_c": math.nan}, "max_temperature_c"),
        ({"allow_unknown": ("heat",)}, "allow_unknown.*heat.*temperature_c"),
        ({"allow_unknown": "idle"}, "expected a tuple"),
    ],
)
def test_a_setting_out_of_range_is_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Policy(**setting)  # type: ignore[arg-type]


def test_the_guard_stops_when_the_device_changes_and_stays_with_it() -> None:
    device, clock = Device(), Clock()
    guard = Guard(Policy(), device, examples=16, clock=clock)
    assert guard() is None
    device.reading = replace(GOOD, charging=False)
    clock.now += 1.0
    assert guard() == "the device is not charging"
    device.reading = GOOD
    clock.now += 1.0
    assert guard() == "the device is not charging"


def test_the_guard_asks_the_device_once_a_second() -> None:
    device, clock = Device(), Clock()
    guard = Guard(Policy(), device, examples=16, clock=clock)
    for _ in range(40):
        assert guard() is None
        clock.now += 0.125
    assert device.asked == 5


def test_the_guard_stops_when_the_time_is_up() -> None:
    clock = Clock()
    guard = Guard(Policy(max_seconds=20), Device(), examples=16, clock=clock)
    clock.now += 20.0
    assert guard() is None
    clock.now += 0.5
    assert guard() == "the training takes longer than 20 s"
    endless = Guard(Policy.always(), None, examples=1, clock=clock)
    clock.now += 1e9
    assert endless() is None
