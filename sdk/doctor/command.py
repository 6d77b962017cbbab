"""``pocketquery doctor``: check everything that can be wrong on this machine."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from pocketquery.sdk.bundle.installed import BUNDLE_VARIABLE, DEFAULT, KEY_VARIABLE, bundles
from pocketquery.sdk.commands import (
    Subparsers,
    add_bundle,
    add_command,
    add_index,
    add_index_public_key,
    add_public_key,
    chosen_public_key,
    print_json,
)
from pocketquery.sdk.doctor.findings import Finding, Report, Severity, guarded
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.folders import is_present
from pocketquery.sdk.indexing.default_index import INDEX_VARIABLE, bundle_for, default_index

__all__ = ["check_environment", "doctor", "examine"]

_QUERY = "how do plants make sugar"
_PREFIX = "POCKETQUERY_"
_VARIABLES = (BUNDLE_VARIABLE, KEY_VARIABLE, INDEX_VARIABLE, "POCKETQUERY_DATA")
_FETCH_AGAIN = "fetch or export it again, or name another"


def doctor(subparsers: Subparsers) -> None:
    """Add ``pocketquery doctor``."""
    parser = add_command(
        subparsers,
        "doctor",
        "Look at this machine, the installation, bundles and indexes, and say what is wrong.",
        """\
examples:
  pocketquery doctor
  pocketquery doctor --bundle demo/bundle --index demo/index
  pocketquery doctor --extra federation --state state --json

Exit code 0: nothing is broken (warnings may be). 1: something is; each line says what to do.
""",
        _run,
    )
    add_bundle(parser)
    add_public_key(parser)
    add_index(parser)
    add_index_public_key(parser)
    parser.add_argument("--query", default=_QUERY, help=f'what to search for (default: "{_QUERY}")')
    parser.add_argument("--state", metavar="FOLDER", help="the folder of a device's private state")
    parser.add_argument(
        "--extra", action="append", default=[], metavar="NAME", help="an extra that must be there"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _run(options: argparse.Namespace) -> int:
    if not options.query.strip():
        raise InvalidInputError("the query is blank; expected some text")
    report = Report(tuple(examine(options, os.environ)))
    if options.json:
        print_json(report.to_dict())
    else:
        print("\n".join(report.lines()))
    return 0 if report.healthy else 1


def examine(options: argparse.Namespace, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Every finding, as the options of the command ask for."""
    yield from _installation(options.extra)
    yield from check_environment(environment)
    key: list[str | None] = []  # empty: it cannot be used
    yield from guarded(
        "bundles", "public key", "name a key, or unset it", lambda: _key(options, key)
    )
    if key:
        yield from _bundles(options.bundle or environment.get(BUNDLE_VARIABLE) or DEFAULT, key[0])
        place = options.index or default_index()
        if options.index or is_present(place):
            yield from _index(place, options, key[0])
    yield from _folders(options.state)


def _installation(extras: list[str]) -> Iterator[Finding]:
    from pocketquery.sdk.doctor.machine import check_clock, check_machine
    from pocketquery.sdk.doctor.requirements import check_import, check_packages, declared

    def clock() -> Finding:
        with tempfile.NamedTemporaryFile() as file:
            written = Path(file.name).stat().st_mtime
        return check_clock(time.time(), Path(__file__).stat().st_mtime, written)

    again = "install pocketquery again: pip install --force-reinstall pocketquery"
    yield from guarded("machine", "machine", again, check_machine)
    yield from guarded("machine", "clock", "set the clock", clock)
    for name in ("numpy", "onnxruntime", "sentencepiece", "simsimd"):
        remedy = f"pip install --force-reinstall {name}"
        yield from guarded("packages", f"import {name}", remedy, partial(check_import, name))
    yield from guarded("packages", "packages", again, lambda: check_packages(declared(), extras))


def check_environment(environment: Mapping[str, str]) -> Iterator[Finding]:
    """The variables that are ours, and names that look like ours and that nothing reads."""
    for name in sorted(name for name in environment if name.startswith(_PREFIX)):
        value, details = environment[name], {"value": environment[name]}
        if name in _VARIABLES:
            yield Finding("environment", name, Severity.OK, value or "(empty)", "", details)
            continue
        near = get_close_matches(name, _VARIABLES, 1)
        remedy = f"is {near[0]} meant? Rename or unset it" if near else "unset it"
        yield Finding("environment", name, Severity.WARNING, "nothing reads it", remedy, details)
    for name in _VARIABLES[:3]:
        if name not in environment:
            yield Finding("environment", name, Severity.ABSENT, "not set")


def _key(options: argparse.Namespace, chosen: list[str | None]) -> Iterator[Finding]:
    key = chosen_public_key(options)
    if key is not None:
        from pocketquery.sdk.bundle.signature import key_id

        named = key_id(key)
        yield Finding("bundles", "public key", Severity.OK, named, "", {"key_id": named})
    chosen.append(key)


def _bundles(used: str, key: str | None) -> Iterator[Finding]:
    from pocketquery.sdk.doctor.artifacts import check_bundle

    remedies = {DEFAULT: "install pocketquery again: pip install --force-reinstall pocketquery"}
    for name, path in sorted(bundles().items()):
        if name != used:  # not used now: nobody asked for its signature
            remedy = remedies.get(name, f"install the package of {name} again")
            yield from guarded("bundles", name, remedy, partial(check_bundle, path, name, None))
    remedy = remedies.get(used, _FETCH_AGAIN)
    if key is not None:
        remedy += "; where the key is meant for another bundle, name that one"
    yield from guarded(
        "bundles", f"{used} (in use)", remedy, lambda: check_bundle(used, f"{used} (in use)", key)
    )


def _index(place: Path | str, options: argparse.Namespace, key: str | None) -> Iterator[Finding]:
    from pocketquery.sdk.doctor.artifacts import check_index
    from pocketquery.sdk.loading import load

    yield from guarded(
        "index",
        "index",
        "name an index (--index) and the bundle it was made for (--bundle), or build it again",
        lambda: check_index(
            place,
            lambda: load(bundle_for(Path(place), options.bundle), public_key=key),
            options.query,
            options.index_public_key,
        ),
    )


def _folders(state: str | None) -> Iterator[Finding]:
    from pocketquery.sdk.doctor.machine import check_folder

    temporary = Path(tempfile.gettempdir())
    named = [("temporary files", temporary, False)]
    if state is not None:
        named.append(("device state", Path(state).absolute(), True))
    for name, folder, private in named:
        yield from guarded(
            "state",
            name,
            f"make {folder} writable for this user, on a disk with room",
            partial(check_folder, folder, name, private=private),
        )
