"""The commands ``encode`` and ``verify``, and what every command is made with."""

from __future__ import annotations

import argparse
import json
import sys
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.fields import unique_keys
from pocketquery.sdk.validation import Rule

if TYPE_CHECKING:
    from pocketquery.sdk.doctor.verification import VerificationReport
    from pocketquery.sdk.encoder import Encoder

__all__ = [
    "SUMMARIES",
    "Parsed",
    "Subparsers",
    "add_action",
    "add_adapter",
    "add_bundle",
    "add_command",
    "add_filter",
    "add_index",
    "add_index_public_key",
    "add_public_key",
    "chosen_public_key",
    "encode",
    "one_line",
    "print_error",
    "print_json",
    "stdin_lines",
    "verify",
]

Subparsers: TypeAlias = (
    "argparse._SubParsersAction[argparse.ArgumentParser]"  # argparse gives it no public name
)
SUMMARIES = {
    "index": "Encode a corpus or a folder of texts and build an index.",
    "search": "Search an index; the query never leaves this machine.",
    "serve": "Serve the search page for an index, on this machine alone.",
    "mcp": "Let assistants on this machine search an index, over stdin and stdout (MCP).",
    "encode": "Encode texts into vectors.",
    "slice": "Cut from an index those documents that a filter selects, without encoding again.",
    "delta": "Make, show and apply what changed between two versions of an index.",
    "verify": "Check a bundle or an index.",
    "doctor": "Look at this machine, the installation, bundles and indexes.",
    "completion": "Print a script that completes commands in bash, zsh or fish.",
    "adapt": "Teach the query encoder the documents of an index, without labels.",
    "mine": "Make training data of raw texts: stores, pairs, triples, vocabularies.",
    "augment": "Make views of queries with any augmenter, look at them, keep them.",
    "pretrain": "Pretrain a document encoder on raw texts, with one objective or several.",
    "distill": "Distil a teacher into a light query encoder.",
    "export": "Export a distilled encoder as an int8 bundle.",
    "evaluate": "Measure a bundle's retrieval beside its teacher's and BM25's.",
    "package": "Make a Python package of a bundle, for pip.",
    "adapt-student": "Teach a student, or its bundle's adapter, the documents of an index.",
    "encode-corpus": "Encode a corpus of many files, shard by shard, also on Ray.",
    "vectors": "Write an index's vectors for a server: Parquet, FAISS, Postgres, Qdrant.",
    "join": "Take part in federated rounds through a gateway.",
    "enrol": "A device's key and certificate for private rounds (experimental).",
    "privacy": "Plan private rounds, or write the privacy officer's page (experimental).",
    "simulate": "Federated rounds over simulated devices, in this process.",
    "gateway": "Let phones and browsers take part in federated rounds.",
    "releases": "List the versions the rounds made, show one, roll back.",
    "demo": "The whole journey on a real corpus, in minutes.",
}
"""Sub-command -> its line in the list of all of them, in the order of that list."""


def encode(subparsers: Subparsers) -> None:
    """Add ``pocketquery encode``."""
    parser = add_command(
        subparsers,
        "encode",
        "Encode texts into vectors.",
        """\
examples:
  pocketquery encode "how do plants make sugar"
  pocketquery encode --bundle demo/bundle --json < queries.txt > vectors.json
  pocketquery encode --bundle demo/bundle --adapter adapter-7.safetensors "sugar"
""",
        _encode,
    )
    parser.add_argument("texts", nargs="*", help="the texts; without any, the lines of stdin")
    add_bundle(parser)
    add_adapter(parser)
    add_public_key(parser)
    parser.add_argument("--prompt-name", help="which prompt of the bundle to put before each text")
    parser.add_argument("--json", action="store_true", help="print one JSON object, whole vectors")


def verify(subparsers: Subparsers) -> None:
    """Add ``pocketquery verify``."""
    parser = add_command(
        subparsers,
        "verify",
        "Check a bundle or an index: hashes, signature, graph, golden texts.",
        """\
examples:
  pocketquery verify index
  pocketquery verify default
  pocketquery verify demo/bundle
  pocketquery verify encoder.zip --public-key publisher.pub.pem
""",
        _verify,
    )
    parser.add_argument(
        "path", help="a bundle (folder, zip, or an installed one's name) or an index (folder)"
    )
    add_public_key(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _encode(options: argparse.Namespace) -> int:
    encoder = _load(options)
    texts = options.texts or stdin_lines()
    vectors = encoder.encode(texts, prompt_name=options.prompt_name)
    if options.json:
        print_json(
            {
                "space_id": encoder.space_id,
                "version": encoder.version,
                "dimension": encoder.dimension,
                "vectors": [[float(value) for value in vector] for vector in vectors],
            }
        )
        return 0
    for text, vector in zip(texts, vectors, strict=True):
        head = " ".join(f"{value:+.4f}" for value in vector[:6])
        print(f"{_shorten(text, 60)}\n    {encoder.dimension} dimensions: {head} ...")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from pocketquery.sdk.doctor.verification import verify as verify_artifact

    report = verify_artifact(options.path, public_key=chosen_public_key(options))
    if options.json:
        print_json(report.to_dict())
        return 0
    print(f"{report.path}: a sound {report.kind}")
    print(f"  space      {report.space_id}, {report.dimension} dimensions")
    if report.documents is not None:
        print(f"  documents  {report.documents}")
    print(f"  files      {report.files}, {report.bytes / 1e6:.1f} MB, every hash equal")
    if report.golden is not None:
        print(f"  encoder    {report.name}, version {report.version}")
        print(
            f"  golden     {report.golden.texts} texts, ids equal, cosine at least "
            f"{report.golden.least_cosine:.6f}, largest difference "
            f"{report.golden.largest_difference:.1e}"
        )
    print(f"  signature  {_signature(report)}")
    return 0


def _signature(report: VerificationReport) -> str:
    if report.signed_by:
        return f"by the key {report.signed_by}"
    claimed = f"; it says: by {report.claimed_key_id}" if report.claimed_key_id else ""
    return f"not checked (no key{claimed})"


def add_command(
    subparsers: Subparsers,
    name: str,
    description: str,
    examples: str,
    run: Callable[[argparse.Namespace], int] | None = None,
) -> argparse.ArgumentParser:
    """Add a sub-command with its examples, and what runs it; returns its parser.

    Args:
        subparsers: of the shell.
        name: of the command.
        description: at the top of its own help.
        examples: at the end of it.
        run: returns the exit code; None where the command has actions that run.
    """
    parser = subparsers.add_parser(
        name,
        help=SUMMARIES.get(name, description),
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_action(
    actions: Any, name: str, summary: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add an action of a sub-command (``enrol key``), which can print JSON; returns its parser."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)
    return parser


class Parsed:
    """The type of an option whose values obey a rule: others are a usage error, before any work,
    which names the option.

    Args:
        rule: say ``whole(0)``.
        parse: makes a value of a text, or raises ValueError.
    """

    def __init__(self, rule: Rule, parse: Callable[[str], Any]) -> None:
        self.rule = rule
        self.parse = parse

    def __call__(self, text: str) -> Any:
        try:
            value = self.parse(text)
        except ValueError:
            value = None
        if value is None or not self.rule.holds(value):
            raise argparse.ArgumentTypeError(f'found "{text}", expected {self.rule.expected}')
        return value


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a query encoder."""
    parser.add_argument(
        "--bundle",
        help="the query encoder: a folder, a zip, or an installed one's name (default: "
        "$POCKETQUERY_BUNDLE, else an installed one that the index was made with, else the "
        "built-in one)",
    )


def add_adapter(parser: argparse.ArgumentParser) -> None:
    """Add the option that names an adapter release."""
    parser.add_argument(
        "--adapter", metavar="FILE", help="a newer adapter release than the bundle's own"
    )


def add_public_key(parser: Any) -> None:
    """Add the option that every command that opens a bundle has, to a parser or a group."""
    parser.add_argument(
        "--public-key",
        metavar="KEY",
        help="what is not signed by this Ed25519 key is refused: 64 hexadecimal digits or a PEM "
        "file (default: $POCKETQUERY_PUBLIC_KEY)",
    )


def add_index(parser: argparse.ArgumentParser) -> None:
    """Add ``--index``, which index is searched."""
    parser.add_argument(
        "--index",
        metavar="FOLDER",
        help="the index (default: $POCKETQUERY_INDEX, else what pocketquery index FOLDER built)",
    )


def add_index_public_key(parser: argparse.ArgumentParser) -> None:
    """Add the option that asks for an index's signature."""
    parser.add_argument(
        "--index-public-key",
        metavar="KEY",
        help="the index must be signed by this key too; hashes its files first",
    )


def add_filter(parser: Any, **options: Any) -> None:
    """Add the option that selects documents, to a parser or a group of its options."""
    text = "conditions on the metadata, as JSON"
    parser.add_argument("--filter", type=_json_object, metavar="JSON", help=text, **options)


def chosen_public_key(options: Any) -> str | None:
    """The ``public_key`` of a command's options, or of the environment; None where neither is.

    Raises:
        InvalidInputError: the environment's is set and empty.
    """
    from pocketquery.sdk.loading import key_named

    key: str | None = options.public_key
    return key_named() if key is None else key


def _load(options: argparse.Namespace) -> Encoder:
    from pocketquery.sdk.loading import load

    return load(options.bundle, adapter=options.adapter, public_key=chosen_public_key(options))


def stdin_lines() -> list[str]:
    """The lines of stdin, which must be UTF-8."""
    lines = []
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            lines.append(line.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"stdin, line {number}: not UTF-8 at byte {error.start}; expected UTF-8 text"
            ) from error
    return lines


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('expected a JSON object, say {"lang": "en"}')
    return value


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object, as escapes where stdout is not UTF-8."""
    plain = (sys.stdout.encoding or "").lower() != "utf-8"  # then as escapes, which are JSON too
    print(json.dumps(value, ensure_ascii=plain))


def _shorten(text: str, length: int) -> str:
    """One line of at most ``length`` characters, none of which a terminal obeys."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= length else line[: length - 3].rstrip() + "..."


def print_error(message: str) -> None:
    """Print an error on stderr, as all commands do; names of files are in it."""
    lines = map(one_line, message.split("\n"))
    print("pocketquery: error: " + "\n".join(lines), file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """``text``, as long as before, without a character that a terminal obeys."""
    return "".join("\ufffd" if _is_control(one) else one for one in text)


def _is_control(character: str) -> bool:
    # The joiners are spelling in Persian, Hindi and emoji, and move nothing.
    category = unicodedata.category(character)
    return category in ("Cc", "Cf", "Zl", "Zp", "Cs") and character not in "\u200c\u200d\u00ad"
