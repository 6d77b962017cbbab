"""``pocketquery releases``: which versions there are, what the gate said, and what is in force."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_action, add_command
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import check_file_replaceable, write_atomic

if TYPE_CHECKING:
    from pocketquery.sdk.bundle.statement import Statement
    from pocketquery.server.federation.releases.registry import Release

__all__ = ["releases"]

_EPILOG = """\
examples:
  pocketquery releases list --registry federation/releases
  pocketquery releases show 7 --registry federation/releases
  pocketquery releases show 7 --registry federation/releases --output adapter-7.safetensors
  pocketquery releases rollback 6 --registry federation/releases --json
  pocketquery releases rollback 6 --registry federation/releases --signing-key publisher.pem
  pocketquery releases roll-out 7 --share 0.1 --registry federation/releases \\
      --signing-key publisher.pem
  pocketquery releases rotate-key --registry federation/releases --signing-key publisher.pem \\
      --new-key publisher-2.pem --overlap 20
  pocketquery releases lineage --registry federation/releases --output lineage.jsonl

A release is an adapter file that devices put into the encoder they have: pocketquery search
--adapter FILE, sdk.load(bundle, adapter=FILE), Encoder.swap_adapter(FILE). A registry that was
given a signing key (in rounds, or here) also makes a signed statement of each change; devices that
know its public key follow these, and nothing else: see docs/devices.md.
"""
_ROW = "{:>8}  {:>8}  {:10}  {:>16}  {:>8}  {:>18}  {}"


def releases(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "releases",
        "The versions that federated rounds released or rejected.",
        _EPILOG,
    )
    actions = parser.add_subparsers(metavar="action", required=True)
    _add(actions, "list", "every candidate, the oldest first", _list)
    show = _add(actions, "show", "one release, and the gate's report on it", _show)
    show.add_argument("version", nargs="?", help="which (default: the one in force)")
    show.add_argument("--output", metavar="FILE", help="also write the release file here")
    rollback = _add(actions, "rollback", "put an older release in force again", _rollback)
    rollback.add_argument("version", nargs="?", help="to which (default: the parent's)")
    _add_key(rollback, required=False)
    roll_out = _add(actions, "roll-out", "have more devices search with a release", _roll_out)
    roll_out.add_argument("version", help="which")
    roll_out.add_argument(
        "--share",
        type=float,
        required=True,
        metavar="X",
        help="of the devices, from 0 to 1, which is every device; it only grows",
    )
    _add_key(roll_out)
    rotate = _add(actions, "rotate-key", "sign with another key from now on", _rotate_key)
    _add_key(rotate)
    rotate.add_argument(
        "--new-key", required=True, metavar="FILE", help="the private key that follows"
    )
    rotate.add_argument(
        "--overlap",
        type=int,
        default=10,
        metavar="N",
        help="statements that keys before it may sign still (default: 10; 0: none)",
    )
    text = "what devices are told of the release in force, and what they were told"
    _add(actions, "lineage", text, _lineage).add_argument(
        "--output", metavar="FILE", help="write the lineage here, for apps"
    )


def _add(actions: Any, name: str, description: str, run: Any) -> argparse.ArgumentParser:
    parser = add_action(actions, name, description, run)
    parser.add_argument("--registry", required=True, metavar="FOLDER", help="of the releases")
    return parser


def _add_key(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--signing-key",
        required=required,
        metavar="FILE",
        help="Ed25519 private key: PEM file or 64 hex digits"
        + ("" if required else "; needed where the registry has had one"),
    )


def _list(arguments: argparse.Namespace) -> int:
    from pocketquery.server.federation.releases.registry import Registry

    candidates = Registry.open(arguments.registry).history()
    if arguments.json:
        print(json.dumps({"releases": [release.to_dict() for release in candidates]}))
        return 0
    print(_ROW.format("version", "parent", "status", "recorded", "after", "interval", "gate"))
    for release in candidates:
        print(_ROW.format(*_cells(release)).rstrip())
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from pocketquery.sdk.bundle.adapter import check_adapter_place
    from pocketquery.server.federation.releases.registry import Registry

    registry = Registry.open(arguments.registry)
    release = registry.get(arguments.version) if arguments.version else registry.current()
    if arguments.output:
        check_adapter_place(arguments.output)
        write_atomic(Path(arguments.output), registry.read(release.version))
    _print(release, as_json=arguments.json)
    return 0


def _rollback(arguments: argparse.Namespace) -> int:
    from pocketquery.server.federation.releases.registry import Registry

    registry = Registry.open(arguments.registry)
    release = registry.rollback(arguments.version, signing_key=arguments.signing_key)
    _print(release, as_json=arguments.json)
    return 0


def _roll_out(arguments: argparse.Namespace) -> int:
    from pocketquery.server.federation.releases.registry import Registry

    registry = Registry.open(arguments.registry)
    registry.roll_out(arguments.version, arguments.share, signing_key=arguments.signing_key)
    _print_statement(registry.statements()[-1], as_json=arguments.json)
    return 0


def _rotate_key(arguments: argparse.Namespace) -> int:
    from pocketquery.server.federation.releases.registry import Registry

    registry = Registry.open(arguments.registry)
    statement = registry.rotate_key(
        arguments.signing_key, arguments.new_key, overlap=arguments.overlap
    )
    _print_statement(statement, as_json=arguments.json)
    return 0


def _lineage(arguments: argparse.Namespace) -> int:
    from pocketquery.server.federation.releases.registry import Registry

    registry = Registry.open(arguments.registry)
    statements = registry.statements()
    if not statements:
        raise InvalidInputError(
            f"{arguments.registry}: its releases were never signed, so there are no statements; "
            "give rounds a signing key, or one to rollback or roll-out"
        )
    if arguments.output:
        check_file_replaceable(Path(arguments.output), "a lineage", _read_lineage)
        write_atomic(Path(arguments.output), registry.lineage())
    if arguments.json:
        signed = [json.loads(one.to_bytes())["signed"] for one in statements]
        print(json.dumps({"statements": signed}))
        return 0
    for one in statements:
        print(_statement_line(one))
    return 0


def _read_lineage(path: Path) -> None:
    from pocketquery.sdk.bundle.lineage import LARGEST_LINEAGE, parse_lineage

    with path.open("rb") as file:
        parse_lineage(file.read(LARGEST_LINEAGE + 1), str(path))


def _print_statement(statement: Statement, *, as_json: bool) -> None:
    print(statement.to_bytes().decode() if as_json else _statement_line(statement))


def _statement_line(statement: Statement) -> str:
    """A statement in one line."""
    from pocketquery.sdk.bundle.signature import key_id
    from pocketquery.sdk.bundle.statement import WHOLE

    parts = [f"statement {statement.sequence}: release {statement.release.version} in force"]
    if statement.roll_out is not None:
        rest = statement.roll_out.rest.version
        parts[0] += (
            f" for {statement.roll_out.share / WHOLE:.6g} of the devices, {rest} for the rest"
        )
    if statement.rollback_from is not None:
        parts.append(f"rolled back from {statement.rollback_from}")
    keys = [
        key_id(one.key) + ("" if one.until is None else f" (up to statement {one.until})")
        for one in statement.keys
    ]
    return ", ".join([*parts, f"keys {', '.join(keys)}"])


def _print(release: Release, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(release.to_dict()))
        return
    print(f"release {release.version}: {release.status}")
    print(f"  parent     {release.parent or 'none'}")
    print(f"  recorded   {_time(release)}")
    print(f"  file       {'none' if release.bytes is None else f'{release.bytes} bytes'}")
    report = release.report
    if report is None:
        print("  gate       not judged")
        return
    print(f"  gate       {report['reason']}: {report['detail']}")
    print(f"  {report['metric']:9}  {_number(report['before'])} before, ", end="")
    print(f"{_number(report['after'])} after, {_number(report['shipped'])} shipped")
    print(f"  spread     {_number(report['std_ratio'])}, rank {_number(report['effective_rank'])}")


def _cells(release: Release) -> tuple[str, ...]:
    report = release.report or {}
    interval = ""
    if report.get("low") is not None:
        interval = f"[{report['low']:+.4f}, {report['high']:+.4f}]"
    return (
        release.version,
        release.parent or "",
        release.status,
        _time(release),
        _number(report.get("after")) if report else "",
        interval,
        report.get("reason", "not judged"),
    )


def _time(release: Release) -> str:
    return f"{datetime.fromtimestamp(release.recorded_at):%Y-%m-%d %H:%M}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
