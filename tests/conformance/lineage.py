"""Write conformance/lineage: statements of registries, and what a device makes of them.

A case has a ``lineage`` (text), the ``public_key`` and the ``known`` statement (a line, or null) it
is followed from, and the ``version`` in force where no statement is known (or null); then either
the ``error``, or the ``sequence`` that is followed and, by device secret, the version to search
with.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pocketquery.sdk.bundle.lineage import follow, pack_lineage, parse_lineage
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.bundle.statement import RollOut, Statement, StatementKey, Target, is_older
from pocketquery.sdk.errors import PocketQueryError

__all__ = ["TARGET", "followed", "main"]

TARGET = Path(__file__).parents[2] / "conformance" / "lineage" / "lineages.json.gz"
OLD, NEW, STRANGER = (bytes([number]) * 32 for number in (1, 2, 3))
SECRETS = [bytes([number]) * 32 for number in range(8)]
VERSIONS = [
    "1", "2", "9", "10", "01", "1.2", "1.10", "2026-11", "2026-11.1", "a", "1a", "a1", "é", "v2",
    "𝟡", "٩", "",
]  # fmt: skip


@dataclass(frozen=True)
class _Case:
    name: str
    lineage: bytes
    known: Statement | None = None
    version: str | None = None
    key: bytes = OLD


def followed(case: dict[str, Any]) -> Statement:
    """What Python makes of a case."""
    known = None if case["known"] is None else Statement.parse(case["known"].encode())
    statements = parse_lineage(case["lineage"].encode())
    key = bytes.fromhex(case["public_key"])
    return follow(statements, known, key, version=case["version"])


def main() -> None:
    """Write everything anew."""
    cases = []
    for one in _cases():
        case: dict[str, Any] = {
            "name": one.name,
            "lineage": one.lineage.decode(),
            "known": None if one.known is None else one.known.to_bytes().decode(),
            "version": one.version,
            "public_key": public_key_of(one.key).hex(),
        }
        try:
            found = followed(case)
        except PocketQueryError as error:
            case["error"] = type(error).__name__
        else:
            case["sequence"] = found.sequence
            case["targets"] = {one.hex(): found.target(one).version for one in SECRETS}
        cases.append(case)
    older = [[a, b, is_older(a, b)] for a in VERSIONS for b in VERSIONS]
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"cases": cases, "older": older}, ensure_ascii=True, separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(len(cases), "cases,", sum("error" in case for case in cases), "refused")


def _target(version: str) -> Target:
    return Target(version, (version * 64)[:64])


def _keys(*ends: tuple[bytes, int | None]) -> tuple[StatementKey, ...]:
    return tuple(StatementKey(public_key_of(key), until) for key, until in ends)


def _statement(sequence: int, version: str, *signers: bytes, **changes: Any) -> Statement:
    made = Statement(
        space_id="space",
        encoder_sha256="e" * 64,
        sequence=sequence,
        keys=_keys((OLD, None)),
        release=_target(version),
    )
    return replace(made, **changes).signed(*(signers or (OLD,)))


def _cases() -> Iterator[_Case]:
    first, second, third = (_statement(number, str(number)) for number in (1, 2, 3))
    rotated = _statement(3, "3", OLD, NEW, keys=_keys((OLD, 5), (NEW, None)))
    share = RollOut(500_000, bytes(range(32)), _target("1"))
    back = _statement(3, "1", rollback_from="2")

    def case(
        name: str, *statements: Statement, known: Statement | None = None, **options: Any
    ) -> _Case:
        return _Case(name, pack_lineage(statements), known, **options)

    yield case("the first", first)
    yield case("several", first, second, third)
    yield case("what is known, again", second, known=second)
    yield case("a newer one", third, known=first)
    yield case("known, and a newer one", second, third, known=second)
    yield case("a roll-out", _statement(2, "2", roll_out=share), known=first)
    yield case("no device first", _statement(2, "2", roll_out=replace(share, share=0)), known=first)
    yield case("a rollback that is meant", back, known=second)
    yield case("a rollback of one that is not", back, known=_statement(2, "3"))
    yield case("a rollback that is not meant", _statement(3, "1"), known=second)
    yield case("older than what came without a statement", first, version="2")
    yield case("newer than what came without a statement", second, version="1")
    yield case("replayed", first, known=second)
    yield case("two with one number", _statement(2, "9"), known=second)
    yield case("a key that is replaced", rotated, known=second)
    yield case("its successor signs", rotated, _statement(4, "4", NEW), known=second)
    yield case("by the successor alone, from the first", first, _statement(4, "4", NEW))
    four = _statement(4, "4", keys=rotated.keys)
    yield case("a key with an end signs", rotated, four, known=second)
    yield case("behind its end", rotated, _statement(6, "4", keys=rotated.keys), known=second)
    yield case("a key with an end changes the keys", rotated, _statement(4, "4"), known=second)
    yield case("known to the new key alone", first, rotated, key=NEW)
    yield case("by a stranger", _statement(1, "1", STRANGER))
    yield case("by a stranger, later", first, _statement(2, "2", STRANGER))
    yield case("to a stranger", first, key=STRANGER)
    forged = replace(second, signatures=first.signatures)
    yield case("with another's signature", forged, known=first)
    yield case("by nobody", replace(first, signatures={}))
    yield case("numbers that do not grow", second, first)
    yield case("of several encoders", first, _statement(2, "2", space_id="elsewhere"))
    line = first.to_bytes()
    for name, changed in (
        ("nothing", b""),
        ("no end", line),
        ("an empty line", line + b"\n\n"),
        ("a blank", b" " + line + b"\n"),
        ("another order", line.replace(b'{"signatures"', b'{"signatures" ') + b"\n"),
        ("an unknown field", line.replace(b'"format":', b'"extra":1,"format":') + b"\n"),
        ("a field that is missing", line.replace(b'"rollback_from":null,', b"") + b"\n"),
        ("another format", line.replace(b"-statement", b"-stAtement") + b"\n"),
        ("a newer version", line.replace(b'"format_version":1', b'"format_version":2') + b"\n"),
        ("version 0", line.replace(b'"format_version":1', b'"format_version":0') + b"\n"),
        ("number 0", line.replace(b'"sequence":1', b'"sequence":0') + b"\n"),
        ("number 1.0", line.replace(b'"sequence":1', b'"sequence":1.0') + b"\n"),
        ("number 2^53", line.replace(b'"sequence":1', b'"sequence":9007199254740992') + b"\n"),
        ("digits in capitals", line.replace(b'"key":"8a', b'"key":"8A') + b"\n"),
        ("too long", line.replace(b'"version":"1"', b'"version":"%s"' % (b"1" * 17_000)) + b"\n"),
        ("too many", (line + b"\n") * 200),
    ):
        yield _Case(name, changed)
    for name, changes in (
        ("no key", {"keys": ()}),
        ("a key twice", {"keys": _keys((OLD, None), (OLD, 3))}),
        ("no key without an end", {"keys": _keys((OLD, 3))}),
        ("a rollback from an older one", {"rollback_from": "0"}),
        ("a roll-out beside a newer one", {"roll_out": replace(share, rest=_target("2"))}),
        ("a share of all", {"roll_out": replace(share, share=1_000_000)}),
        ("a version of nothing", {"release": Target("", "0" * 64)}),
        ("a name beyond ASCII", {"space_id": "spâce\u2028𝟡"}),
    ):
        yield case(name, _statement(1, "1", **changes))


if __name__ == "__main__":
    main()
