"""Readings of a computer for the policy: all of them on Linux, some on other systems.

Nothing here asks the network, and what cannot be read is None. The formats are the kernel's:
Documentation/ABI/testing/sysfs-class-power, Documentation/driver-api/thermal/sysfs-api.rst and
proc(5); whether a network is metered is NetworkManager's to say (its guess counts).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pocketquery.client.policy import DeviceReading
from pocketquery.sdk.errors import MissingExtraError

__all__ = ["SystemReadings"]

_BUSY_SHARE = 0.25  # of the machine, by all others together: more than background services take
_FIRST_SAMPLE_S = 0.2  # seconds between the first two looks at the processor's times
_NETWORK_MANAGER_TIMEOUT_S = 3.0  # seconds for NetworkManager to answer
_MOBILE_INTERFACES = ("wwan", "ppp", "rmnet", "ccmni")


class SystemReadings:
    """The computer that this process runs on.

    Idle is when others than this process have used less than a quarter of its processors since the
    last reading (the first takes 0.2 s). Charging is mains power. The temperature is the battery's
    where the kernel tells it, else that of the hottest thermal zone.

    Args:
        sys: where the kernel's sysfs is.
        proc: where its procfs is.
        nmcli: NetworkManager's command; looked for on the path by default.

    Raises:
        MissingExtraError: psutil is not installed.
    """

    def __init__(
        self, *, sys: Path | str = "/sys", proc: Path | str = "/proc", nmcli: Path | str = "nmcli"
    ) -> None:
        try:
            self._psutil: Any = importlib.import_module("psutil")
        except ImportError as error:
            raise MissingExtraError.of("psutil", "client") from error
        self._sys = Path(sys)
        self._proc = Path(proc)
        self._nmcli = shutil.which(nmcli)
        self._looked: tuple[float, float, float] | None = None
        self._others: float | None = None

    def read(self) -> DeviceReading:
        """The computer now."""
        return DeviceReading(
            idle=self._idle(),
            charging=self._charging(),
            unmetered=self._unmetered(),
            temperature_c=self._temperature(),
        )

    def _idle(self) -> bool | None:
        if self._looked is None:
            self._looked = self._look()
            time.sleep(_FIRST_SAMPLE_S)
        now = self._look()
        total, busy, own = (b - a for a, b in zip(self._looked, now, strict=True))
        if total >= _FIRST_SAMPLE_S / 2:  # else too short a time to tell
            self._looked = now
            self._others = max(busy - own, 0.0) / total
        return None if self._others is None else self._others < _BUSY_SHARE

    def _look(self) -> tuple[float, float, float]:
        """Processor seconds of the machine so far: all, the busy ones, this process's."""
        times = self._psutil.cpu_times()._asdict()
        # Linux counts a guest's time in its host's too.
        total = sum(spent for name, spent in times.items() if not name.startswith("guest"))
        unused = times["idle"] + times.get("iowait", 0.0)
        mine = os.times()
        return total, total - unused, mine.user + mine.system

    def _charging(self) -> bool | None:
        supplies = self._supplies()
        if supplies is None:
            return self._charging_elsewhere()
        kinds = {supply: _text(supply / "type") for supply in supplies}
        batteries = [supply for supply in supplies if kinds[supply] in ("Battery", "UPS")]
        plugs = [supply for supply in supplies if supply not in batteries]
        if not batteries or any(_text(plug / "online") not in (None, "0") for plug in plugs):
            return True
        states = {_text(battery / "status") for battery in batteries}
        if states & {"Charging", "Full", "Not charging"}:  # the last: plugged in, held at a limit
            return True
        return False if "Discharging" in states else None

    def _supplies(self) -> list[Path] | None:
        """Power supplies of this machine, not those of a mouse; None: the kernel tells of none."""
        folder = self._sys / "class/power_supply"
        if not folder.is_dir():
            return None
        present = [one for one in sorted(folder.iterdir()) if _text(one / "present") != "0"]
        return [one for one in present if _text(one / "scope") != "Device"]

    def _charging_elsewhere(self) -> bool | None:
        sensor = getattr(self._psutil, "sensors_battery", None)
        battery = sensor() if sensor else None
        return None if battery is None else battery.power_plugged

    def _temperature(self) -> float | None:
        batteries = [_number(one / "temp", 0.1) for one in self._supplies() or []]
        zones = (self._sys / "class/thermal").glob("thermal_zone*/temp")
        return max(_real(batteries) or _real(_number(one, 0.001) for one in zones), default=None)

    def _unmetered(self) -> bool | None:
        interfaces = self._interfaces()
        answers = {self._unmetered_by(interface) for interface in interfaces}
        if False in answers:
            return False
        return True if answers == {True} else None

    def _interfaces(self) -> set[str]:
        """Those that lead to the internet: of the default routes, IPv4 and IPv6."""
        four = [line.split() for line in (_text(self._proc / "net/route") or "").splitlines()]
        six = [line.split() for line in (_text(self._proc / "net/ipv6_route") or "").splitlines()]
        interfaces = {
            line[0] for line in four if len(line) > 7 and line[1] == line[7] == "00000000"
        }
        interfaces |= {
            line[9] for line in six if len(line) > 9 and line[0] == "0" * 32 and line[1] == "00"
        }
        return interfaces - {"lo"}

    def _unmetered_by(self, interface: str) -> bool | None:
        kind = _text(self._sys / "class/net" / interface / "uevent") or ""
        if interface.startswith(_MOBILE_INTERFACES) or "DEVTYPE=wwan" in kind.splitlines():
            return False
        if self._nmcli is None:
            return None
        command = [self._nmcli, "-g", "GENERAL.METERED", "device", "show", interface]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=_NETWORK_MANAGER_TIMEOUT_S, check=True
            )
        except (OSError, subprocess.SubprocessError):  # absent, not running, hanging
            return None
        answer = done.stdout.decode(errors="replace").split(maxsplit=1) or [""]
        return {"yes": False, "no": True}.get(answer[0])  # "no (guessed)", too


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError):  # drivers answer with any error
        return path.read_text().strip()
    return None


def _number(path: Path, unit: float) -> float | None:
    with contextlib.suppress(ValueError):
        return int(_text(path) or "") * unit
    return None


def _real(degrees: Iterable[float | None]) -> list[float]:
    """Without the sensors that are off, which report 0, far below or nonsense."""
    return [one for one in degrees if one is not None and 0 < one < 200]
