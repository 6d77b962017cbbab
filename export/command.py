"""``pocketquery export``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pocketquery.sdk.bundle.manifest import TRAINING_STEP_FILE
from pocketquery.sdk.commands import add_command
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError, UnknownModelError

if TYPE_CHECKING:
    from pocketquery.export.bundle.bundling import ExportReport
    from pocketquery.export.quantization.ranking_gate import GateData
    from pocketquery.server.modeling import SentenceEncoder

__all__ = ["check_teachers_space", "export"]

Item = TypeVar("Item")

_EXPORT_EPILOG = """\
examples:
  pocketquery export --student student --output bundle \\
      --corpus corpus.jsonl.gz --queries queries.tsv --qrels qrels.tsv
  pocketquery export --student student --output encoder.zip --queries log.tsv \\
      --corpus corpus.jsonl --signing-key publisher.pem --license Apache-2.0
  pocketquery export --student student --output bundle --queries queries.tsv \\
      --corpus corpus.jsonl --sentence-transformers student-onnx --json
  pocketquery export --student student --output bundle --queries queries.tsv --training-step
  pocketquery export --student student --output bundle --queries queries.tsv --training-step \
      --adapter-rank 1 --adapter-train up
  pocketquery export --student student --output bundle --queries queries.tsv --with-tokenizer

The queries calibrate the int8 encoder. With a corpus, it must also rank the documents as the float
student does; MatMuls go back to float, one by one, until it does.
"""


def export(subparsers: Any) -> None:
    """Add ``pocketquery export`` to the shell's parsers."""
    parser = add_command(
        subparsers,
        "export",
        "Export a distilled student as an int8 bundle that a device can load.",
        _EXPORT_EPILOG,
        _export,
    )
    add = parser.add_argument
    add("--student", required=True, metavar="FOLDER", help="what pocketquery distill wrote")
    add("--output", required=True, metavar="PATH", help="the bundle: a folder, or a file.zip")
    add("--queries", required=True, metavar="FILE", help="queries as tsv (id, text) or jsonl")
    add("--corpus", metavar="FILE", help="documents for the ranking gate: corpus.jsonl")
    add("--qrels", metavar="FILE", help="judgements, so that the gate looks at nDCG@10 too")
    add("--teacher", metavar="NAME", help="encodes the corpus (default: the student's teacher)")
    add("--cache", metavar="FOLDER", help="keep the teacher's document vectors here")
    add("--gate-queries", type=int, default=1000, metavar="N", help="at most (default: 1000)")
    add("--least-overlap", type=float, default=0.90, help="of the ten best (default: 0.90)")
    add("--most-ndcg-loss", type=float, default=0.01, help="of nDCG@10 (default: 0.01)")
    add(
        "--least-cosine",
        type=float,
        default=0.95,
        help="of int8 to float, for each text that calibration did not see (default: 0.95)",
    )
    add(
        "--adapter-rank",
        type=int,
        metavar="N",
        help="0 leaves the adapter out (default: 8, or the most of which a release has 100 KB)",
    )
    add(
        "--adapter-train",
        default="both",
        choices=["both", "up"],
        help="up: half of the adapter stays the random matrix it is exported with, which makes "
        "changes and releases small (default: both)",
    )
    add(
        "--training-step",
        nargs="?",
        const="index_byol",
        choices=["index_byol", "byol"],
        metavar="OBJECTIVE",
        help="also carry a step of local training: index_byol (default) or byol",
    )
    add(
        "--training-part",
        choices=["adapter", "top", "all"],
        help="what the step trains (default: adapter)",
    )
    add(
        "--training-views",
        type=int,
        metavar="N",
        help="of each query; byol: 2 or 4 (default: 2)",
    )
    add(
        "--with-tokenizer",
        action="store_true",
        help="also write encoder_with_tokenizer.onnx, text in and vector out, for apps that call "
        "onnxruntime with its extensions; it repeats the encoder's weights",
    )
    add("--name", help="of the bundle (default: the student folder's name)")
    add("--version", default="1", help="of the encoder within its space (default: 1)")
    add("--license", default="LicenseRef-unstated", metavar="SPDX", help="of the weights")
    add("--signing-key", metavar="FILE", help="Ed25519 private key: PEM file or 64 hex digits")
    add("--sentence-transformers", metavar="FOLDER", help="also write that layout, with onnx/")
    add("--zip", action="store_true", help="write PATH.zip, one file, instead of a folder")
    add("--json", action="store_true", help="print one JSON object")


def _export(arguments: argparse.Namespace) -> int:
    # torch and onnx come with these: only when the command runs, not when its help is shown.
    from pocketquery.export.bundle.bundling import ExportOptions, export_bundle
    from pocketquery.export.onnx_graph import GraphOptions
    from pocketquery.export.quantization.ranking_gate import GateThresholds
    from pocketquery.export.training_step.training_step import TrainingOptions
    from pocketquery.server.corpus import read_queries
    from pocketquery.server.modeling import SentenceEncoder

    if arguments.qrels and not arguments.corpus:
        raise InvalidInputError("--qrels is given without --corpus; the ranking gate needs both")
    if arguments.gate_queries < 1:
        raise InvalidInputError(f"--gate-queries is {arguments.gate_queries}; expected 1 or more")
    output = Path(arguments.output)
    if arguments.zip and output.suffix != ".zip":
        output = output.with_name(output.name + ".zip")
    chosen = {"part": arguments.training_part, "views": arguments.training_views}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if chosen and not arguments.training_step:
        raise InvalidInputError(
            f"--training-{next(iter(chosen))} is given without --training-step, which it is of"
        )
    training = None
    if arguments.training_step:
        training = TrainingOptions(arguments.training_step, **chosen)
    options = ExportOptions(
        graph=GraphOptions(
            adapter_rank=arguments.adapter_rank, adapter_train=arguments.adapter_train
        ),
        thresholds=GateThresholds(
            arguments.least_overlap, arguments.most_ndcg_loss, arguments.least_cosine
        ),
        training=training,
        with_tokenizer=arguments.with_tokenizer,
    )
    queries = read_queries(arguments.queries)
    student = SentenceEncoder.load(arguments.student)
    report = export_bundle(
        student,
        output,
        calibration_texts=[query.text for query in queries],
        gate=_gate_data(arguments, student, queries),
        options=options,
        name=arguments.name or Path(arguments.student).resolve().name,
        license=arguments.license,
        version=arguments.version,
        signing_key=arguments.signing_key,
        sentence_transformers=arguments.sentence_transformers,
        progress=_say,
    )
    _print_export(report, as_json=arguments.json)
    return 0


def _gate_data(
    arguments: argparse.Namespace, student: SentenceEncoder, queries: Sequence[Any]
) -> GateData | None:
    from pocketquery.export.quantization.ranking_gate import GateData
    from pocketquery.server.corpus import read_documents, read_judgements
    from pocketquery.server.evaluation.document_vectors import encode_documents

    if not arguments.corpus:
        _say("no --corpus: the ranking gate is left out, and the manifest says so")
        return None
    documents = list(read_documents(arguments.corpus))
    judgements = read_judgements(arguments.qrels) if arguments.qrels else None
    if judgements is not None:
        queries = [query for query in queries if query.id in judgements]
        if not queries:
            raise InvalidInputError(
                f"{arguments.qrels} judges none of the queries of {arguments.queries}; expected "
                "queries and judgements of one data set, or leave --qrels out"
            )
    teacher = _teacher(arguments, student)
    check_teachers_space(f"the student {arguments.student}", student.space_id, teacher)
    vectors = encode_documents(teacher, documents, cache=arguments.cache, show_progress_bar=True)
    return GateData(
        _spread(queries, arguments.gate_queries),
        [document.id for document in documents],
        vectors,
        judgements,
    )


def _teacher(arguments: argparse.Namespace, student: SentenceEncoder) -> SentenceEncoder:
    """The teacher that is given, or the one the student names."""
    from pocketquery.server.modeling import SentenceEncoder

    if arguments.teacher:
        return SentenceEncoder.load(arguments.teacher)
    name = student.space.get("teacher")
    if not name:
        raise UnknownModelError(
            f"{arguments.student} does not name its teacher, which encodes the corpus for the "
            "ranking gate; give --teacher"
        )
    try:
        return SentenceEncoder.load(str(name))
    except UnknownModelError as error:  # a teacher in a folder is known by that folder's name only
        raise UnknownModelError(
            f'{arguments.student} was distilled from "{name}", which encodes the corpus for the '
            "ranking gate and is not to be found by that name; give its place with --teacher"
        ) from error


def check_teachers_space(what: str, space_id: str, teacher: SentenceEncoder) -> None:
    """Raise SpaceMismatchError where ``what`` lives in another space than ``teacher``."""
    if space_id != teacher.space_id:
        raise SpaceMismatchError.between(what, space_id, "the teacher", teacher.space_id)


def _spread(items: Sequence[Item], most: int) -> list[Item]:
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)]


def _print_export(report: ExportReport, *, as_json: bool) -> None:
    manifest = report.manifest
    size = sum(entry.bytes for entry in manifest.files.values())
    if as_json:
        summary = {
            "path": str(report.path),
            "name": manifest.name,
            "space_id": manifest.space.id,
            "dimension": manifest.space.dimension,
            "bytes": size,
            "signature_key_id": manifest.signature_key_id,
            "quality": dict(manifest.quality),
        }
        print(json.dumps(summary))
        return
    print(f"{report.path}: {manifest.name}, version {manifest.encoder_version}, verified")
    print(f"  space      {manifest.space.id}, {manifest.space.dimension} dimensions")
    print(f"  size       {size / 1e6:.1f} MB (float graph: {report.float_bytes / 1e6:.1f} MB)")
    print(
        f"  int8       cosine to float {report.cosine_mean:.4f}, least {report.cosine_min:.4f}",
        end="",
    )
    print(f", over {sum(report.held_out.values())} texts that calibration did not see")
    if report.gate is not None:
        last = report.gate.last
        print(f"  gate       top-10 overlap {last.overlap:.3f}", end="")
        if last.ndcg is not None:
            print(f", nDCG@10 {last.ndcg:.4f} (float: {report.gate.float_ndcg:.4f})", end="")
        print(f", {len(last.excluded)} MatMuls left in float")
    if report.training is not None:
        step = manifest.files[TRAINING_STEP_FILE].bytes
        error = report.training.state_error
        print(f"  training   {step / 1e6:.1f} MB, within {error:.0e} of torch after 20 steps")
    if report.string_graph is not None:
        text = report.string_graph
        print(f"  text in    {text.bytes / 1e6:.1f} MB, the encoder again: an app ships it alone")
        print(
            f"             the tokenizer's ids for {text.queries.share:.2%} of the queries, "
            f"{text.english.share:.2%} of English, {text.characters.share:.2%} of odd texts"
        )
    if manifest.signature_key_id:
        print(f"  signed by  {manifest.signature_key_id}")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
