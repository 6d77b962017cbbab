"""``pocketquery index``: a corpus or a folder of texts becomes what devices search."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_public_key, public_key_of
from pocketquery.sdk.errors import InvalidInputError, MissingExtraError, SpaceMismatchError
from pocketquery.sdk.index.documents import Document

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["index"]

_EPILOG = """\
examples:
  pocketquery index --documents notes/ --output index
  pocketquery index --documents notes/ --output index --symmetric
  pocketquery index --corpus corpus.jsonl.gz --output index
  pocketquery index --corpus corpus.jsonl --teacher BAAI/bge-small-en-v1.5 --output index
  pocketquery index --corpus corpus.jsonl --bundle bundle --output index --json
  pocketquery index --corpus corpus.jsonl --output index --signing-key publisher.pem

Killed and run again with the same documents, it continues where it was. Without --teacher and
--symmetric the teacher of the encoder that comes along encodes (extra "demo").
"""


def index(subparsers: Any) -> None:
    """Add ``pocketquery index`` to the shell's parsers."""
    parser = subparsers.add_parser(
        "index",
        help="encode a corpus or a folder of texts and build an index",
        description="Encode documents and build the index that devices search.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--corpus", metavar="FILE", help="corpus.jsonl, plain or gzip")
    source.add_argument(
        "--documents", metavar="FOLDER", help="text, Markdown, reStructuredText and HTML files"
    )
    add("--output", required=True, metavar="FOLDER", help="the index; one there is replaced")
    add("--teacher", help="model folder, Hub name, or demo (default)")
    add(
        "--symmetric",
        action="store_true",
        help="encode with the bundle itself, which needs nothing but the base install and finds "
        "less",
    )
    add(
        "--bundle",
        help="check before encoding that this bundle lives in the teacher's space; with "
        "--symmetric, what encodes (default: the one that comes along)",
    )
    add_public_key(parser)
    add("--signing-key", metavar="FILE", help="Ed25519 private key: PEM file or 64 hex digits")
    add("--batch-size", type=int, default=64, help="documents a batch (default: 64)")
    add("--device", default="cpu", help="torch device (default: cpu)")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_index)


@dataclasses.dataclass(frozen=True)
class _DocumentEncoder:
    space_id: str
    dimension: int
    encode: Callable[[list[str]], NDArray[Any]]
    name: str = ""  # where it is not the space's own


def _index(arguments: argparse.Namespace) -> int:
    from pocketquery.export.indexing import build_index

    encoder = _symmetric(arguments) if arguments.symmetric else _teacher(arguments)
    skipped = list[str]()
    report = build_index(
        _documents(arguments, skipped),
        encoder.encode,
        arguments.output,
        space_id=encoder.space_id,
        dimension=encoder.dimension,
        batch_size=arguments.batch_size,
        show_progress_bar=True,
        encoded_by=encoder.name,
        signing_key=arguments.signing_key,
    )
    for line in skipped:
        print(f"not read: {line}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(report)))
        return 0
    print(f"{report.path}: {report.documents} documents, {report.bytes / 1e6:.1f} MB")
    print(f"  space      {report.space_id}, {report.dimension} dimensions")
    if encoder.name:
        print(f"  encoded    by the light encoder {encoder.name}")
    if report.resumed:
        print(f"  resumed    {report.resumed} documents were encoded by an earlier run")
    print(f"  time       {report.seconds:.1f} s")
    if report.signature_key_id:
        print(f"  signed by  {report.signature_key_id}")
    return 0


def _documents(arguments: argparse.Namespace, skipped: list[str]) -> Iterable[Document]:
    if arguments.documents is not None:
        from pocketquery.sdk.index.text_folder import read_folder

        return read_folder(
            arguments.documents, on_skipped=lambda path, why: skipped.append(f"{path}: {why}")
        )
    from pocketquery.server.corpus.readers.documents import read_documents

    return read_documents(arguments.corpus)


def _symmetric(arguments: argparse.Namespace) -> _DocumentEncoder:
    from pocketquery.sdk.loading import load

    if arguments.teacher:
        raise InvalidInputError(
            f"--symmetric is given with --teacher {arguments.teacher}; expected one of them"
        )
    encoder = load(arguments.bundle, public_key=public_key_of(arguments))
    name = f"{encoder.name} {encoder.version}"
    return _DocumentEncoder(encoder.space_id, encoder.dimension, encoder.encode_document, name)


def _teacher(arguments: argparse.Namespace) -> _DocumentEncoder:
    from pocketquery.sdk.bundle.bundle import Bundle

    try:
        from pocketquery.server.modeling import SentenceEncoder

        teacher = SentenceEncoder.load(arguments.teacher or "demo", device=arguments.device)
    except (MissingExtraError, ModuleNotFoundError) as error:
        raise MissingExtraError(
            f"{error}; or pass --symmetric, and the light encoder encodes the documents too"
        ) from error
    if arguments.bundle:
        manifest = Bundle.open(arguments.bundle, public_key=public_key_of(arguments)).manifest
        if manifest.space.id != teacher.space_id:
            raise SpaceMismatchError.between(
                f"the bundle {arguments.bundle}", manifest.space.id, "the teacher", teacher.space_id
            )
    return _DocumentEncoder(teacher.space_id, teacher.dimension, teacher.encode_document)
