"""``pocketquery slice`` and ``pocketquery delta``: what each device may have, and what changed."""

from __future__ import annotations

import argparse
import dataclasses
import sys

from pocketquery.sdk.commands import (
    Subparsers,
    add_action,
    add_command,
    add_filter,
    add_index_public_key,
    print_json,
)
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["delta", "slice_"]


def slice_(subparsers: Subparsers) -> None:
    """Add ``pocketquery slice``."""
    parser = add_command(
        subparsers,
        "slice",
        "Cut from an index those documents that a filter selects, without encoding again.",
        """\
examples:
  pocketquery slice --index all --filter '{"tenant": "a"}' --output a
  pocketquery slice --index all --filter '{"groups": {"$in": ["staff", "berlin"]}}' --output anna
  pocketquery slice --index all --by tenant --output slices --signing-key publisher.pem

With --by every value of the field becomes an index of its own, in a folder with the value's name.
A slice is what an index built from its documents alone would be, to the byte.
""",
        _slice,
    )
    parser.add_argument("--index", required=True, metavar="FOLDER", help="the index to cut from")
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="the slice; with --by, of the slices"
    )
    which = parser.add_mutually_exclusive_group(required=True)
    add_filter(which)
    which.add_argument("--by", metavar="FIELD", help="an index for each value of this field")
    parser.add_argument(
        "--allow-empty", action="store_true", help="make an index also where no document matches"
    )
    add_index_public_key(parser)
    _add_signing_key(parser, "what is cut")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def delta(subparsers: Subparsers) -> None:
    """Add ``pocketquery delta``."""
    parser = add_command(
        subparsers,
        "delta",
        "What changed between two versions of an index, for devices that have the old.",
        """\
examples:
  pocketquery delta make --old slices-1/a --new slices-2/a --output a.delta
  pocketquery delta make --old 1 --new 2 --output a.delta --signing-key publisher.pem
  pocketquery delta show a.delta
  pocketquery delta apply a.delta --index index
  pocketquery delta apply a.delta --index index --index-public-key publisher.pub.pem

An index that a delta was applied to finds what the new one finds, with the same scores.
""",
    )
    actions = parser.add_subparsers(metavar="action", required=True)
    make = add_action(actions, "make", "write what leads from one index to another", _make)
    make.add_argument("--old", required=True, metavar="FOLDER", help="what devices have")
    make.add_argument("--new", required=True, metavar="FOLDER", help="what they shall have")
    make.add_argument("--output", required=True, metavar="FILE", help="the delta")
    _add_signing_key(make, "the delta (needed where the new index is signed)")
    show = add_action(actions, "show", "what a delta does, after checking its hashes", _show)
    show.add_argument("delta", help="the file")
    add_index_public_key(show)
    apply = add_action(actions, "apply", "make an index what the new one is, in one step", _apply)
    apply.add_argument("delta", help="the file")
    apply.add_argument("--index", required=True, metavar="FOLDER", help="the old index")
    add_index_public_key(apply)


def _add_signing_key(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--signing-key",
        metavar="FILE",
        help=f"Ed25519 private key that signs {what}: PEM file or 64 hex digits",
    )


def _slice(options: argparse.Namespace) -> int:
    from pocketquery.sdk.slices.slicing import slice_index, slice_index_by

    keys = {"public_key": options.index_public_key, "signing_key": options.signing_key}
    if options.by is None:
        report = slice_index(
            options.index, options.filter, options.output, allow_empty=options.allow_empty, **keys
        )
        if options.json:
            print_json(dataclasses.asdict(report))
        else:
            print(f"{report.path}: {report.documents} documents, {report.bytes / 1e6:.1f} MB")
        return 0
    if options.allow_empty:
        raise InvalidInputError("--allow-empty is given with --by, which makes no empty index")
    reports = slice_index_by(options.index, options.by, options.output, **keys)
    for name in reports.others:
        print(f"left as it is: {options.output}/{name}, a value no document has", file=sys.stderr)
    if options.json:
        print_json(dataclasses.asdict(reports))
        return 0
    for report in reports.slices.values():
        print(f"{report.path}: {report.documents} documents, {report.bytes / 1e6:.1f} MB")
    if reports.left_out:
        print(f"{reports.left_out} documents have no {options.by!r} and are in no slice")
    return 0


def _make(options: argparse.Namespace) -> int:
    from pocketquery.sdk.slices.deltas import make_delta

    report = make_delta(options.old, options.new, options.output, signing_key=options.signing_key)
    if options.json:
        print_json(dataclasses.asdict(report))
        return 0
    print(
        f"{report.path}: {report.bytes / 1e3:.1f} KB; {report.removed} documents go, "
        f"{report.added} come, {report.changed} change, {report.documents} then"
    )
    return 0


def _show(options: argparse.Namespace) -> int:
    from pocketquery.sdk.slices.delta_file import Delta

    delta = Delta(options.delta, options.index_public_key)
    delta.check()
    manifest = delta.manifest
    if options.json:
        print_json(dataclasses.asdict(manifest) | {"signed_by": delta.signed_by})
        return 0
    print(f"{options.delta}: a sound delta")
    print(f"  space      {manifest.space_id}, {manifest.dimension} dimensions")
    print(f"  from       {manifest.old.documents} documents, contents {manifest.old.sha256}")
    print(f"  to         {manifest.new.documents} documents, contents {manifest.new.sha256}")
    print(f"  documents  {manifest.removed} go, {manifest.added} come, {manifest.changed} change")
    claimed = manifest.signature_key_id
    unchecked = f"not checked (no key{f'; it says: by {claimed}' if claimed else ''})"
    print(f"  signature  {f'by the key {delta.signed_by}' if delta.signed_by else unchecked}")
    return 0


def _apply(options: argparse.Namespace) -> int:
    from pocketquery.sdk.slices.deltas import apply_delta

    done = apply_delta(options.delta, options.index, public_key=options.index_public_key)
    if options.json:
        print_json(dataclasses.asdict(done))
    elif done.was_there:
        print(f"{done.path}: has these {done.documents} documents already")
    else:
        print(
            f"{done.path}: {done.documents} documents; {done.removed} went, {done.added} came, "
            f"{done.changed} changed"
        )
    return 0
