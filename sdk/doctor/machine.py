"""The machine: Python, processor, onnxruntime, SQLite, the clock, folders to write in."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pocketquery.sdk.doctor.findings import Finding, Severity
from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.sqlite_file import check_sqlite, transaction

__all__ = ["check_clock", "check_folder", "check_machine", "processor_features"]

_LEAST_PYTHON = (3, 11)
_LEAST_FREE = 64 << 20  # bytes; an index's change is written beside the old state
_YEAR = 365 * 86_400  # seconds
_LONGEST_LIFE = 30 * _YEAR  # of an installation; a clock that is further ahead is wrong
_CLOCK_STEP = 120.0  # seconds between the clock and a file just written; disks round to 2 s

# What int8 products are fast with, on either kind of processor.
_INTEGER_FEATURES = ("avx512_vnni", "avx_vnni", "asimddp", "i8mm", "FEAT_DotProd", "FEAT_I8MM")
_KNOWN = ("sse4_1", "avx", "avx2", "fma", "avx512f", "amx_int8", "asimd", *_INTEGER_FEATURES)


def check_machine() -> Iterator[Finding]:
    """Python, the processor, onnxruntime as it is here, and SQLite."""
    yield _python()
    yield _processor()
    yield from _onnxruntime()
    yield _sqlite()


def _python() -> Finding:
    bits = 64 if sys.maxsize > 2**32 else 32
    found = f"{platform.python_version()}, {bits} bit, {platform.platform(terse=True)}"
    details = {"version": platform.python_version(), "bits": bits, "executable": sys.executable}
    if sys.version_info < _LEAST_PYTHON:
        least = ".".join(map(str, _LEAST_PYTHON))
        return Finding(
            "machine", "python", Severity.BROKEN, found, f"install Python {least} or later", details
        )
    return Finding("machine", "python", Severity.OK, found, "", details)


def processor_features() -> tuple[str, ...]:
    """What the processor has of what matters to us; empty where the system does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        return ()
    lines = re.findall(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    have = set(lines[0].split()) if lines else set()
    return tuple(name for name in _KNOWN if name in have)


def _processor() -> Finding:
    features, cores = processor_features(), os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    found = f"{platform.machine()}, {usable} of {cores} cores"
    found += f", {' '.join(features)}" if features else ""
    details = {"machine": platform.machine(), "cores": usable, "features": list(features)}
    if platform.machine().lower() in ("x86_64", "amd64") and features and "avx2" not in features:
        return Finding(
            "machine",
            "processor",
            Severity.WARNING,
            f"{found}; without AVX2",
            "expect queries to take several times as long; nothing needs to be changed",
            details,
        )
    return Finding("machine", "processor", Severity.OK, found, "", details)


def _onnxruntime() -> Iterator[Finding]:
    import onnxruntime

    providers = list(onnxruntime.get_available_providers())
    threads = os.environ.get("OMP_NUM_THREADS")
    found = "an encoder takes 1 thread of the processor"
    found += f"; OMP_NUM_THREADS={threads}" if threads else ""
    telemetry = os.environ.get("ORT_DISABLE_TELEMETRY")
    found += "" if telemetry == "1" else f"; it may report (ORT_DISABLE_TELEMETRY={telemetry})"
    details = {
        "version": onnxruntime.__version__,
        "providers": providers,
        "threads": 1,
        "telemetry": telemetry != "1",
    }
    if "CPUExecutionProvider" in providers:
        yield Finding("machine", "onnxruntime", Severity.OK, found, "", details)
        return
    yield Finding(
        "machine",
        "onnxruntime",
        Severity.BROKEN,
        f"{', '.join(providers)}; lacks CPUExecutionProvider, on which encoders run",
        "pip install --force-reinstall onnxruntime",
        details,
    )


def _sqlite() -> Finding:
    details = {"version": sqlite3.sqlite_version}
    try:
        check_sqlite()
    except PocketQueryError as error:
        found, _, remedy = str(error).rpartition(". ")
        return Finding("machine", "sqlite", Severity.BROKEN, found, remedy, details)
    return Finding("machine", "sqlite", Severity.OK, sqlite3.sqlite_version, "", details)


def check_clock(now: float, installed: float, written: float) -> Finding:
    """Whether the clock can be right: queries age, budgets renew and statements expire by it.

    Args:
        now: what it says, in seconds since 1970.
        installed: when this installation's files were made.
        written: the time of a file that was written just now; a network disk has a clock of its
            own.
    """
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    details = {"now": now, "installed": installed, "disk_ahead": written - now}
    remedy = "set the clock, and have it follow a time server"
    if now < installed - 86_400:
        before = time.strftime("%Y-%m-%d", time.gmtime(installed))
        found = f"{shown}, before this installation was made ({before})"
        return Finding("machine", "clock", Severity.BROKEN, found, remedy, details)
    if now > installed + _LONGEST_LIFE:
        found = f"{shown}, {(now - installed) / _YEAR:.0f} years after this installation was made"
        return Finding("machine", "clock", Severity.BROKEN, found, remedy, details)
    if abs(written - now) > _CLOCK_STEP:
        found = f"{shown}, and the disk's is {written - now:+.0f} s off"
        return Finding("machine", "clock", Severity.WARNING, found, remedy, details)
    return Finding("machine", "clock", Severity.OK, shown, "", details)


def check_folder(folder: Path, name: str, *, private: bool = False) -> Finding:
    """Whether files can be written, renamed and locked in ``folder``; nothing is left there.

    Args:
        folder: which; where it is not there yet, the nearest folder above is checked.
        name: how to call it.
        private: whether it holds what only its owner should read.

    Raises:
        OSError, sqlite3.Error: it cannot be written.
    """
    there = folder
    while not there.exists():
        there = there.parent
    with tempfile.TemporaryDirectory(prefix=".pocketquery-doctor-", dir=there) as inner:
        write_atomic(Path(inner) / "file", b"written")
        connection = sqlite3.connect(Path(inner) / "file.sqlite", isolation_level=None)
        try:
            with transaction(connection):
                connection.execute("CREATE TABLE one (two)")
        finally:
            connection.close()
    free = shutil.disk_usage(there).free
    found = f"{folder}: writable, {free / 1e9:.1f} GB free"
    details = {"path": str(folder), "free": free, "exists": folder == there}
    if free < _LEAST_FREE:
        remedy = "make room: changes are written beside the old state"
        return Finding("state", name, Severity.WARNING, found, remedy, details)
    if private and folder == there and os.name == "posix" and there.stat().st_mode & 0o077:
        return Finding(
            "state",
            name,
            Severity.WARNING,
            f"{found}; others on this machine may read it",
            f"chmod 700 {folder}",
            details,
        )
    found += "" if folder == there else "; it is made when first used"
    return Finding("state", name, Severity.OK, found, "", details)
