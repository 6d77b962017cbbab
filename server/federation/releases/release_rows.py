"""A release as the registry records it, and the rows that hold it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.errors import CorruptArtifactError

__all__ = [
    "Release",
    "listed",
    "next_version",
    "put_in_force",
    "read_all",
    "read_file",
    "read_one",
    "recorded_as",
    "version_in_force",
    "write_release",
]

_COLUMNS = "version, parent, accepted, length(data), report, recorded_at"


@dataclass(frozen=True)
class Release:
    """A candidate that was decided on.

    Attributes:
        version: its own; unique in the registry.
        parent: the version it was trained from; of the first, what the bundle says.
        accepted: whether it may be in force; a rejected one has no file.
        in_force: whether it is, as the registry was read.
        bytes: size of the release file; None where there is none.
        report: the gate's, as :meth:`AcceptanceReport.to_dict`; None where no gate judged it.
        recorded_at: seconds since 1970.
    """

    version: str
    parent: str | None
    accepted: bool
    in_force: bool
    bytes: int | None
    report: Mapping[str, Any] | None
    recorded_at: float

    @property
    def status(self) -> str:
        """In a word or two: in force, accepted, or rejected."""
        return "in force" if self.in_force else "accepted" if self.accepted else "rejected"

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "version": self.version,
            "parent": self.parent,
            "status": self.status,
            "bytes": self.bytes,
            "recorded_at": self.recorded_at,
            "report": self.report,
        }


def version_in_force(connection: sqlite3.Connection) -> str:
    """The version that came into force last."""
    return str(
        connection.execute("SELECT version FROM in_force ORDER BY number DESC").fetchone()[0]
    )


def read_all(connection: sqlite3.Connection) -> dict[str, Release]:
    """Every candidate by its version, the oldest first."""
    in_force = version_in_force(connection)
    rows = connection.execute(f"SELECT {_COLUMNS} FROM releases ORDER BY number")
    return {row[0]: _release(row, in_force) for row in rows}


def read_one(connection: sqlite3.Connection, version: str) -> Release:
    """The record of a version that is there."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM releases WHERE version = ?", (version,))
    return _release(row.fetchone(), version_in_force(connection))


def read_file(connection: sqlite3.Connection, version: str) -> bytes:
    """The file of an accepted release, checked.

    Raises:
        CorruptArtifactError: it was changed, or is another release's.
    """
    row = connection.execute(
        "SELECT data, tensors_sha256, parent FROM releases WHERE version = ?", (version,)
    )
    data, tensors_sha256, parent = row.fetchone()
    adapter = parse_adapter(data, f"release {version}")
    expected = (version, parent, tensors_sha256)
    if (adapter.version, adapter.parent_version, adapter.tensors_sha256) != expected:
        raise CorruptArtifactError(
            f"release {version}: the file is that of version {adapter.version}, tensors "
            f"{adapter.tensors_sha256}, expected {tensors_sha256}; put a copy of the registry in "
            "its place"
        )
    return bytes(data)


def recorded_as(
    connection: sqlite3.Connection, parent: str, tensors_sha256: str, *, accepted: bool
) -> str | None:
    """The version under which the same candidate with the same verdict was recorded, if it was."""
    row = connection.execute(
        "SELECT version FROM releases WHERE parent = ? AND accepted = ? AND tensors_sha256 = ?"
        " ORDER BY number DESC",
        (parent, accepted, tensors_sha256),
    ).fetchone()
    return None if row is None else str(row[0])


def write_release(
    connection: sqlite3.Connection,
    *,
    version: str,
    parent: str | None,
    tensors_sha256: str,
    data: bytes | None,
    report: Mapping[str, Any] | None,
    now: float,
) -> None:
    """Record a candidate; one with a file comes into force."""
    connection.execute(
        "INSERT INTO releases (version, parent, accepted, tensors_sha256, data, report,"
        " recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            version,
            parent,
            data is not None,
            tensors_sha256,
            data,
            json.dumps(report, allow_nan=False),
            now,
        ),
    )
    if data is not None:
        put_in_force(connection, version, now)


def put_in_force(connection: sqlite3.Connection, version: str, now: float) -> None:
    """Make a recorded release the one in force."""
    connection.execute("INSERT INTO in_force (version, since) VALUES (?, ?)", (version, now))


def _release(row: tuple[Any, ...], in_force: str) -> Release:
    version, parent, accepted, size, report, recorded_at = row
    return Release(
        version=version,
        parent=parent,
        accepted=bool(accepted),
        in_force=version == in_force,
        bytes=size,
        report=json.loads(report),
        recorded_at=recorded_at,
    )


def next_version(versions: list[str]) -> str:
    """The version of the candidate after these, which are in order."""
    first, count = versions[0], len(versions)
    return str(int(first) + count) if first.isdecimal() else f"{first}.{count}"


def listed(releases: Mapping[str, Release]) -> str:
    """The releases in a line, for errors."""
    return ", ".join(f"{one.version} ({one.status})" for one in releases.values())
