"""The journal's tables of private rounds, and what is erased from them when.

    secure_members   devices that are ready: member, certificate, and where they were dealt to
    secure_round     a group a row: its binding, how far it came, and who is in it still
    secure_boxes     what devices deal to their neighbours; the boxes go as stage 3 closes
    secure_disputes  who acknowledged other shares than their dealer committed to
    secure_sums      the sum of a group's masked changes, from the close of stage 3 on
    secure_marks     held marks (stage 3) and confirm marks (stage 4)
    secure_shares    what was revealed in stage 5

As a group ends, all its rows go in the transaction that keeps its sum, and are overwritten.

No masked change is ever written. While they come, their sum is in memory alone, and a server that
is killed meanwhile asks for them again: the first sum would be one device's change, and so would be
the difference of two in the write-ahead log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pocketquery.client.private.binding import Binding
from pocketquery.client.private.commitments import COMMITMENTS_BYTES
from pocketquery.client.private.keys import MARK_BYTES, Certificate
from pocketquery.client.private.layout import equal_pieces, members_of, to_bitmap
from pocketquery.client.private.masks import word_type
from pocketquery.client.private.messages import BOX_BYTES, Stage
from pocketquery.client.private.replies import Boxes, Shares
from pocketquery.server.private.coordinator import SecureSum
from pocketquery.server.private.secure_round import SecureRound, SumGroup

__all__ = ["TABLES", "clear", "read_secure", "write_secure"]

TABLES = (
    "CREATE TABLE secure_members (node BLOB PRIMARY KEY, arrival INTEGER NOT NULL,"
    " certificate BLOB NOT NULL, grp INTEGER, position INTEGER) WITHOUT ROWID",
    "CREATE TABLE secure_round (grp INTEGER PRIMARY KEY, binding BLOB NOT NULL,"
    " least INTEGER NOT NULL, stage INTEGER NOT NULL, committed BLOB NOT NULL,"
    " survivors BLOB NOT NULL)",
    "CREATE TABLE secure_boxes (grp INTEGER, position INTEGER, mask_public BLOB NOT NULL,"
    " self_digest BLOB NOT NULL, boxes BLOB NOT NULL, commitments BLOB NOT NULL,"
    " PRIMARY KEY (grp, position)) WITHOUT ROWID",
    "CREATE TABLE secure_disputes (grp INTEGER, position INTEGER, dealer INTEGER,"
    " PRIMARY KEY (grp, position, dealer)) WITHOUT ROWID",
    "CREATE TABLE secure_sums (grp INTEGER PRIMARY KEY, codes BLOB NOT NULL)",
    "CREATE TABLE secure_marks (grp INTEGER, stage INTEGER, position INTEGER,"
    " marks BLOB NOT NULL, PRIMARY KEY (grp, stage, position)) WITHOUT ROWID",
    "CREATE TABLE secure_shares (grp INTEGER, position INTEGER, shares BLOB NOT NULL,"
    " PRIMARY KEY (grp, position)) WITHOUT ROWID",
)

_GROUP_TABLES = ("members", "round", "boxes", "disputes", "sums", "marks", "shares")
_NODE_BYTES = 8


def write_secure(connection: sqlite3.Connection, before: SecureRound, after: SecureRound) -> bool:
    """Write what differs between two moments of a round; to be called in a transaction.

    Returns:
        Whether something was erased, which the write-ahead log then still holds.
    """
    came = [(node, one) for node, one in after.ready.items() if node not in before.ready]
    rows = [
        (_node(node), len(before.ready) + place, one.to_bytes())
        for place, (node, one) in enumerate(came)
    ]
    connection.executemany("INSERT INTO secure_members VALUES (?, ?, ?, NULL, NULL)", rows)
    erased = False
    for number, group in after.groups.items():
        known = before.groups.get(number)
        if known is None:
            places = [(number, place, _node(node)) for place, node in enumerate(group.nodes)]
            connection.executemany(
                "UPDATE secure_members SET grp = ?, position = ? WHERE node = ?", places
            )
        erased |= _write_group(connection, number, None if known is None else known.sum, group.sum)
    for number in before.groups.keys() - after.groups.keys():
        for table in _GROUP_TABLES:
            connection.execute(f"DELETE FROM secure_{table} WHERE grp = ?", (number,))
        erased = True
    return erased


def read_secure(connection: sqlite3.Connection, secure: SecureRound) -> SecureRound:
    """``secure`` with the devices and groups in the tables.

    Raises:
        CorruptArtifactError, InvalidInputError, ValueError, KeyError: the rows do not make a round.
    """
    ready: dict[int, Certificate] = {}
    seats: dict[int, dict[int, tuple[int, Certificate]]] = {}
    query = "SELECT node, certificate, grp, position FROM secure_members ORDER BY arrival"
    for node, data, number, position in connection.execute(query):
        certificate, name = Certificate.parse(data), int.from_bytes(node, "big")
        if number is None:
            ready[name] = certificate
        else:
            seats.setdefault(number, {})[position] = (name, certificate)
    groups = {}
    for number, *row in connection.execute("SELECT * FROM secure_round ORDER BY grp").fetchall():
        members = [seats[number][position] for position in range(len(seats[number]))]
        certificates = tuple(one for _, one in members)
        sum_ = _read_group(connection, number, certificates, *row)
        groups[number] = SumGroup(tuple(node for node, _ in members), sum_)
    return replace(secure, ready=ready, groups=groups)


def clear(connection: sqlite3.Connection) -> None:
    """Erase all of the open round."""
    for table in _GROUP_TABLES:
        connection.execute(f"DELETE FROM secure_{table}")


def _write_group(
    connection: sqlite3.Connection, number: int, before: SecureSum | None, after: SecureSum
) -> bool:
    """Write what differs between two moments of a group; whether something was erased."""
    write = connection.executemany
    dealt: Mapping[int, Boxes] = {} if before is None else before.dealt
    boxes = [
        (
            number,
            place,
            one.mask_public,
            one.self_digest,
            b"".join(one.boxes),
            b"".join(one.commitments),
        )
        for place, one in after.dealt.items()
        if place not in dealt
    ]
    write("INSERT INTO secure_boxes VALUES (?, ?, ?, ?, ?, ?)", boxes)
    left_out = [(number, place) for place in dealt if place not in after.dealt]
    write("DELETE FROM secure_boxes WHERE grp = ? AND position = ?", left_out)
    stage = Stage.INVITE if before is None else before.stage
    if before is None or after.stage is not stage:
        _write_head(connection, number, after)
    erased = bool(left_out)
    if stage <= Stage.COLLECT < after.stage:
        connection.execute("UPDATE secure_boxes SET boxes = x'' WHERE grp = ?", (number,))
        codes = after.total.astype(after.total.dtype.newbyteorder("<")).tobytes()
        connection.execute("INSERT INTO secure_sums VALUES (?, ?)", (number, codes))
        _write_marks(connection, number, Stage.COLLECT, after.held.items())
        disputes = [(number, *pair) for pair in sorted(after.disputes)]
        write("INSERT INTO secure_disputes VALUES (?, ?, ?)", disputes)
        erased = True
    known: Any = {} if before is None else before.confirms
    came = ((place, one) for place, one in after.confirms.items() if place not in known)
    _write_marks(connection, number, Stage.CONFIRM, came)
    known = {} if before is None else before.shares
    shares = [
        (number, place, one.to_bytes()) for place, one in after.shares.items() if place not in known
    ]
    write("INSERT INTO secure_shares VALUES (?, ?, ?)", shares)
    return erased


def _write_head(connection: sqlite3.Connection, number: int, group: SecureSum) -> None:
    size = group.binding.size
    survivors = group.survivors if group.stage > Stage.COLLECT else ()
    row = (
        number,
        group.binding.to_bytes(),
        group.least,
        int(group.stage),
        to_bitmap(group.committed, size),
        to_bitmap(survivors, size),
    )
    connection.execute("INSERT OR REPLACE INTO secure_round VALUES (?, ?, ?, ?, ?, ?)", row)


def _write_marks(
    connection: sqlite3.Connection,
    number: int,
    stage: Stage,
    marks: Iterable[tuple[int, tuple[bytes, ...]]],
) -> None:
    rows = [(number, int(stage), place, b"".join(one)) for place, one in marks]
    connection.executemany("INSERT INTO secure_marks VALUES (?, ?, ?, ?)", rows)


def _read_group(
    connection: sqlite3.Connection,
    number: int,
    certificates: tuple[Certificate, ...],
    head: bytes,
    least: int,
    stage: int,
    committed: bytes,
    survivors: bytes,
) -> SecureSum:
    def rows(query: str, *values: int) -> list[Any]:
        return connection.execute(query, (number, *values)).fetchall()

    def marks(of: Stage) -> dict[int, tuple[bytes, ...]]:
        query = "SELECT position, marks FROM secure_marks WHERE grp = ? AND stage = ?"
        rows_ = rows(query, int(of))
        return {
            place: equal_pieces(data, "a journal's marks", len(data) // MARK_BYTES, MARK_BYTES)
            for place, data in rows_
        }

    binding = Binding.parse(head)
    group = SecureSum.begin(binding, certificates, least)
    query = (
        "SELECT position, mask_public, self_digest, boxes, commitments FROM secure_boxes"
        " WHERE grp = ?"
    )
    dealt = {
        place: Boxes(
            binding.digest,
            place,
            public,
            digest,
            equal_pieces(data, "a journal's boxes", len(data) // BOX_BYTES, BOX_BYTES),
            equal_pieces(stored, "a journal's commitments", binding.neighbours, COMMITMENTS_BYTES),
        )
        for place, public, digest, data, stored in rows(query)
    }
    query = "SELECT position, shares FROM secure_shares WHERE grp = ?"
    shares = {place: Shares.parse(data, binding) for place, data in rows(query)}
    group = replace(
        group,
        stage=Stage(stage),
        dealt=dealt,
        committed=members_of(committed, "a journal's bitmap", binding.size),
        survivors=members_of(survivors, "a journal's bitmap", binding.size),
        held=marks(Stage.COLLECT),
        disputes=frozenset(rows("SELECT position, dealer FROM secure_disputes WHERE grp = ?")),
        confirms=marks(Stage.CONFIRM),
        shares=shares,
    )
    for (codes,) in rows("SELECT codes FROM secure_sums WHERE grp = ?"):
        word = np.dtype(word_type(binding.encoding.bits))
        total = np.frombuffer(codes, word.newbyteorder("<")).astype(word)
        if total.shape != group.total.shape:
            raise ValueError(f"a sum has {total.size} codes, expected {group.total.size}")
        group = replace(group, total=total)
    return group


def _node(node: int) -> bytes:
    """A member as the tables have it: a node's id, which may take all of 64 bits; with the seat of
    a device behind it, as many bytes as it needs."""
    return node.to_bytes(max(_NODE_BYTES, (node.bit_length() + 7) // 8), "big")
