from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.policy import DeviceReading, Policy
from pocketquery.client.readings import SystemReadings
from pocketquery.sdk.errors import MissingExtraError

ROUTES = """Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
wlan0	00000000	0101A8C0	0003	0	0	600	00000000	0	0	0
wlan0	0001A8C0	00000000	0001	0	0	600	00FFFFFF	0	0	0
tun0	00000000	0100080A	0003	0	0	0	00000080	0	0	0
docker0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
"""
NOBODY = "0" * 32
REST = "00000400 00000003 00000000 00000003"
ROUTES6 = f"""fe800000000000000000000000000000 40 {NOBODY} 00 {NOBODY} {REST} eth9
{NOBODY} 00 {NOBODY} 00 fe800000000000000000000000000001 {REST} wwan0
{NOBODY} 00 {NOBODY} 00 {NOBODY} {REST} lo
"""


@pytest.fixture
def sys_folder(tmp_path: Path) -> Path:
    for name in ("power_supply", "thermal", "net"):
        (tmp_path / "sys/class" / name).mkdir(parents=True)
    return tmp_path / "sys"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "proc/net").mkdir(parents=True)
    return tmp_path / "proc"


def write(folder: Path, **files: str) -> None:
    """Files of a driver, each with the line end that the kernel writes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def network_manager(folder: Path, answer: str, code: int = 0) -> Path:
    """A program that answers as nmcli does."""
    program = folder / "nmcli"
    asked = '[ "$*" = "-g GENERAL.METERED device show wlan0" ] || exit 9'
    program.write_text(f"#!/bin/sh\n{asked}\n{answer}\nexit {code}\n")
    program.chmod(0o755)
    return program


def charging(sys_folder: Path) -> bool | None:
    return SystemReadings(sys=sys_folder).read().charging


def temperature(sys_folder: Path) -> float | None:
    return SystemReadings(sys=sys_folder).read().temperature_c


def unmetered(sys_folder: Path, proc: Path, nmcli: Path) -> bool | None:
    return SystemReadings(sys=sys_folder, proc=proc, nmcli=nmcli).read().unmetered


def test_this_machine_can_be_read() -> None:
    reading = SystemReadings().read()
    assert isinstance(reading, DeviceReading)
    for value in (reading.idle, reading.charging, reading.unmetered):
        assert value in (None, True, False)
    assert reading.temperature_c is None or 0 < reading.temperature_c < 200
    Policy().refusal(SystemReadings(), examples=16)


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        ({}, True),  # a machine without a battery
        ({"AC": {"type": "Mains", "online": "1"}, "BAT0": {"status": "Full"}}, True),
        ({"AC": {"type": "Mains", "online": "0"}, "BAT0": {"status": "Discharging"}}, False),
        ({"usb": {"type": "USB", "online": "1"}, "BAT0": {"status": "Discharging"}}, True),
        ({"BAT0": {"status": "Charging"}}, True),
        ({"BAT0": {"status": "Not charging"}}, True),
        ({"BAT0": {"status": "Discharging"}}, False),
        ({"BAT0": {"status": "Unknown"}}, None),
        ({"BAT0": {}}, None),
        ({"BAT0": {"status": "Discharging", "present": "0"}}, True),
        ({"mouse": {"status": "Discharging", "scope": "Device"}}, True),
        (
            {
                "mouse": {"status": "Charging", "scope": "Device"},
                "BAT0": {"status": "Discharging", "scope": "System"},
            },
            False,
        ),
    ],
)
def test_charging_is_what_the_kernel_says(
    sys_folder: Path, supplies: dict[str, dict[str, str]], expected: bool | None
) -> None:
    for name, files in supplies.items():
        write(sys_folder / "class/power_supply" / name, **{"type": "Battery", **files})
    assert charging(sys_folder) is expected


def test_the_batterys_temperature_comes_first_then_the_hottest_zone(sys_folder: Path) -> None:
    assert temperature(sys_folder) is None
    write(sys_folder / "class/thermal/thermal_zone0", temp="41500")
    write(sys_folder / "class/thermal/thermal_zone1", temp="62000")
    write(sys_folder / "class/thermal/thermal_zone2", temp="-274000")
    write(sys_folder / "class/thermal/thermal_zone3", temp="hot")
    assert temperature(sys_folder) == 62.0
    write(sys_folder / "class/power_supply/mouse", type="Battery", scope="Device", temp="700")
    assert temperature(sys_folder) == 62.0
    write(sys_folder / "class/power_supply/BAT0", type="Battery", temp="314")
    assert temperature(sys_folder) == pytest.approx(31.4)


@pytest.mark.parametrize(
    ("answer", "code", "expected"),
    [
        ("echo no", 0, True),
        ('echo "no (guessed)"', 0, True),
        ("echo yes", 0, False),
        ('echo "yes (guessed)"', 0, False),
        ("echo unknown", 0, None),
        ("", 0, None),
        ("echo no", 1, None),
        ("printf '\\377'", 0, None),
    ],
)
def test_network_manager_says_whether_the_network_is_metered(
    sys_folder: Path, proc: Path, tmp_path: Path, answer: str, code: int, expected: bool | None
) -> None:
    (proc / "net/route").write_text(ROUTES)
    nmcli = network_manager(tmp_path, answer, code)
    assert unmetered(sys_folder, proc, nmcli) is expected


def test_without_a_network_it_is_unknown(sys_folder: Path, proc: Path, tmp_path: Path) -> None:
    assert unmetered(sys_folder, proc, network_manager(tmp_path, "echo no")) is None
    (proc / "net/route").write_text(ROUTES)
    assert unmetered(sys_folder, proc, tmp_path / "absent") is None


def test_a_mobile_network_is_metered(sys_folder: Path, proc: Path, tmp_path: Path) -> None:
    nmcli = network_manager(tmp_path, "echo no")
    (proc / "net/route").write_text(ROUTES)
    assert unmetered(sys_folder, proc, nmcli) is True
    (proc / "net/ipv6_route").write_text(ROUTES6)
    assert unmetered(sys_folder, proc, nmcli) is False
    (proc / "net/ipv6_route").unlink()
    write(sys_folder / "class/net/wlan0", uevent="DEVTYPE=wwan\nINTERFACE=wlan0")
    assert unmetered(sys_folder, proc, nmcli) is False


@given(st.binary(max_size=60))
def test_drivers_may_say_anything(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    root = tmp_path_factory.mktemp("noise")
    for file in (
        "class/power_supply/BAT0/type",
        "class/power_supply/BAT0/temp",
        "class/thermal/thermal_zone0/temp",
        "net/route",
        "net/ipv6_route",
    ):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(noise)
    readings = SystemReadings(sys=root, proc=root, nmcli=root / "absent")
    assert readings._charging() in (None, True, False)
    assert readings._unmetered() is None
    degrees = readings._temperature()
    assert degrees is None or 0 < degrees < 200


def test_this_processs_own_work_does_not_count_but_others_does() -> None:
    readings = SystemReadings()
    readings._looked = (0.0, 0.0, 0.0)
    for look, idle in (
        ((100.0, 60.0, 50.0), True),  # 10 of 100 seconds were others'
        ((200.0, 90.0, 50.0), False),  # 30 of 100
        ((200.01, 90.0, 50.0), False),  # too soon to tell: as before
        ((300.0, 190.0, 160.0), True),  # more of its own than the machine counted yet
    ):
        readings._look = lambda look=look: look  # type: ignore[method-assign, misc]
        assert readings._idle() is idle


def test_without_psutil_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(MissingExtraError, match=r'"psutil".*pocketquery\[client\]'):
        SystemReadings()
