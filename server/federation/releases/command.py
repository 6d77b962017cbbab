"""``pocketquery releases``: which versions there are, what the gate said, and going back."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.files import write_atomic

if TYPE_CHECKING:
    from pocketquery.server.federation.releases.registry import Release

__all__ = ["releases"]

_EPILOG = """\
examples:
  pocketquery releases list --registry federation/releases
  pocketquery releases show 7 --registry federation/releases
  pocketquery releases show 7 --registry federation/releases --output adapter-7.safetensors
  pocketquery releases rollback 6 --registry federation/releases --json

A release is an adapter file that devices put into the encoder they have: pocketquery search
--adapter FILE, sdk.load(bundle, adapter=FILE), Encoder.swap_adapter(FILE).
"""
_ROW = "{:>8}  {:>8}  {:10}  {:>16}  {:>8}  {:>18}  {}"


def releases(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = subparsers.add_parser(
        "releases",
        help="list the versions of a federation, or go back to one",
        description="The versions that federated rounds released or rejected.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="action", required=True)
    _add(actions, "list", "every candidate, the oldest first", _list)
    show = _add(actions, "show", "one release, and the gate's report on it", _show)
    show.add_argument("version", nargs="?", help="which (default: the one in force)")
    show.add_argument("--output", metavar="FILE", help="also write the release file here")
    rollback = _add(actions, "rollback", "put an older release in force again", _rollback)
    rollback.add_argument("version", nargs="?", help="to which (default: the parent's)")


def _add(actions: Any, name: str, description: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=description, description=description.capitalize() + "."
    )
    parser.add_argument("--registry", required=True, metavar="FOLDER", help="of the releases")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)
    return parser


def _list(arguments: argparse.Namespace) -> int:
    from pocketquery.server.federation.releases.registry import Registry

    found = Registry.open(arguments.registry).history()
    if arguments.json:
        print(json.dumps({"releases": [release.to_dict() for release in found]}))
        return 0
    print(_ROW.format("version", "parent", "status", "recorded", "after", "interval", "gate"))
    for release in found:
        print(_ROW.format(*_cells(release)).rstrip())
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from pocketquery.server.federation.releases.registry import Registry

    registry = Registry.open(arguments.registry)
    release = registry.get(arguments.version) if arguments.version else registry.current()
    if arguments.output:
        write_atomic(Path(arguments.output), registry.read(release.version))
    _print(release, as_json=arguments.json)
    return 0


def _rollback(arguments: argparse.Namespace) -> int:
    from pocketquery.server.federation.releases.registry import Registry

    release = Registry.open(arguments.registry).rollback(arguments.version)
    _print(release, as_json=arguments.json)
    return 0


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
