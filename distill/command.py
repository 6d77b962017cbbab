"""``pocketquery distill``."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import (
    Integer,
    Number,
    add_command,
    add_public_key,
    chosen_public_key,
)
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import SEED, number, whole

if TYPE_CHECKING:
    from pocketquery.sdk.index.documents import Document

__all__ = ["distill"]

_EPILOG = """\
examples:
  pocketquery distill --corpus corpus.jsonl.gz --queries queries.tsv.gz --output student
  pocketquery distill --corpus corpus.jsonl --student 2x128 --vocabulary 8000 --output tiny
  pocketquery distill --teacher BAAI/bge-small-en-v1.5 --texts log.txt --typos 0.35 --output student
  pocketquery distill --start student --texts newer.txt --interpolation 0.5 --output student-2
  pocketquery distill --start default --corpus corpus.jsonl --output mine

The student learns from queries (--queries, or --texts with one a line) and from sentences of the
corpus, and to rank the corpus as the teacher does. Killed and run again, it continues where it was.
"""
_SHAPES = (
    "layers x width (default: 3x384); 3x384x768: with a narrower FFN; 2x384-pq8: eight dimensions "
    "of the vocabulary table a byte"
)


def distill(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "distill",
        "Distil a teacher into a light query encoder that lands in its vector space.",
        _EPILOG,
        _run,
    )
    add = parser.add_argument
    add("--teacher", default="demo", help="model folder, Hub name, or demo (default)")
    add("--output", required=True, metavar="FOLDER", help="where the student goes")
    add("--corpus", metavar="FILE", help="documents to search: corpus.jsonl, plain, gzip or xz")
    add("--queries", metavar="FILE", help="queries as tsv (id, text) or jsonl, plain, gzip or xz")
    add("--texts", metavar="FILE", help="more queries, one a line, plain, gzip or xz")
    add("--student", metavar="LxW", help=_SHAPES)
    add("--layers", metavar="0,2,5", help="teacher layers to start from (default: evenly spaced)")
    add("--vocabulary", type=Integer(whole()), metavar="N", help="prune to about N subword tokens")
    add(
        "--start",
        metavar="STUDENT",
        help="go on from this one, with its shape and vocabulary: a folder as distill saves it, or "
        "a bundle, by its path or name; default is the built-in encoder",
    )
    add(
        "--interpolation",
        type=Number(number(above=0, most=1)),
        default=1.0,
        metavar="SHARE",
        help="with --start: how far to go from its weights to the trained ones (default: 1)",
    )
    add(
        "--feed-forward",
        type=Integer(whole()),
        metavar="N",
        help="with --start: widen the feed-forward part of its layers to N first",
    )
    add(
        "--max-length",
        type=Integer(whole(4)),
        help="tokens of a query (default: 128)",
    )
    add(
        "--typos",
        type=Number(number(0, 1)),
        default=0.0,
        metavar="SHARE",
        help="share of mistyped texts, 0 to 1",
    )
    add(
        "--typo-rate",
        type=Number(number(0, 1)),
        default=0.08,
        help="errors a letter in those (default: 0.08)",
    )
    add("--steps", type=Integer(whole()), default=1000, help="optimiser steps (default: 1000)")
    add("--batch-size", type=Integer(whole()), default=64, help="texts a step (default: 64)")
    add("--learning-rate", type=Number(number(above=0)), default=3e-4, help="peak (default: 3e-4)")
    add(
        "--quantised-share",
        type=Number(number(0, 1)),
        default=0.0,
        metavar="SHARE",
        help="last part of the steps, which computes as the int8 file will (default: 0)",
    )
    add("--seed", type=Integer(SEED), default=0, help="of everything random (default: 0)")
    add("--device", default="cpu", help="torch device (default: cpu)")
    add(
        "--bfloat16",
        action="store_true",
        help="autocast: accelerators, processors with AMX or AVX512-BF16; others ignore it",
    )
    add_public_key(parser)
    add("--json", action="store_true", help="print one JSON object")


def _run(arguments: argparse.Namespace) -> int:
    # torch comes with these: only when the command runs, not when its help is shown.
    from pocketquery.distill.bundle_student import load_student
    from pocketquery.distill.distillation import distill
    from pocketquery.distill.student import StudentConfig
    from pocketquery.distill.texts import query_like_texts, unique_texts
    from pocketquery.distill.training import TrainingConfig
    from pocketquery.sdk.index.documents import content
    from pocketquery.server.modeling import SentenceEncoder

    corpus = _corpus(arguments)
    texts = unique_texts([*_queries(arguments), *query_like_texts(corpus, arguments.seed)])
    if not texts:
        given = [o for o in ("corpus", "queries", "texts") if getattr(arguments, o)]
        if given:
            files = ", ".join(getattr(arguments, option) for option in given)
            raise InvalidInputError(
                f"found no text in {files}, expected at least one to learn from"
            )
        raise InvalidInputError("nothing to learn from; give --corpus, --queries or --texts")
    start = None
    if arguments.start is not None:
        start = load_student(arguments.start, public_key=chosen_public_key(arguments))
    asked: dict[str, Any] = {
        "shape": arguments.student,
        "layers": _layers(arguments.layers),
        "vocabulary_size": arguments.vocabulary,
        "max_length": arguments.max_length,
    }
    asked = {name: value for name, value in asked.items() if value is not None}
    report = distill(
        SentenceEncoder.load(arguments.teacher, device=arguments.device),
        texts,
        arguments.output,
        documents=[content(document) for document in corpus],
        student=StudentConfig(**asked) if asked else None,
        start=start,
        feed_forward=arguments.feed_forward,
        interpolation=arguments.interpolation,
        config=TrainingConfig(
            steps=arguments.steps,
            batch_size=arguments.batch_size,
            learning_rate=arguments.learning_rate,
            max_length=arguments.max_length or StudentConfig.max_length,
            typo_share=arguments.typos,
            typo_rate=arguments.typo_rate,
            quantised_share=arguments.quantised_share,
            seed=arguments.seed,
            bfloat16=arguments.bfloat16,
        ),
        device=arguments.device,
        show_progress_bar=True,
    )
    if arguments.json:
        print(json.dumps(asdict(report) | {"path": str(report.path)}))
        return 0
    print(
        f"student   {report.path}  ({report.student}, {report.parameters / 1e6:.1f} M parameters)"
    )
    print(f"learnt    {report.texts} texts, ranking {report.documents} documents")
    print(f"subwords  {report.vocabulary}")
    print(f"space     {report.space_id}")
    return 0


def _corpus(arguments: argparse.Namespace) -> list[Document]:
    from pocketquery.server.corpus import read_documents

    return list(read_documents(arguments.corpus)) if arguments.corpus else []


def _queries(arguments: argparse.Namespace) -> list[str]:
    from pocketquery.server.corpus import read_queries
    from pocketquery.server.corpus.readers.lines import numbered_lines

    found = [query.text for query in read_queries(arguments.queries)] if arguments.queries else []
    if arguments.texts:
        found += [line for _, line in numbered_lines(arguments.texts)]
    return found


def _layers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidInputError(f'--layers is "{text}"; expected numbers such as 0,2,5') from error
