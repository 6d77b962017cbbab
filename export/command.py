"""``pocketquery export``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pocketquery.export.settings import (
    ExportOptions,
    GateThresholds,
    GraphOptions,
    QuantizationOptions,
    SmallTeacherOptions,
    TrainingOptions,
)
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.installed import installed_bundle
from pocketquery.sdk.bundle.manifest import TRAINING_STEP_FILE
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError, UnknownModelError
from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.common import AsJson
from pocketquery.sdk.settings.declaration import Option, Part, Settings
from pocketquery.sdk.validation import whole

if TYPE_CHECKING:
    from pocketquery.distill.teachers import Teacher
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
  pocketquery export --bundle default --with-tokenizer --output encoder_with_tokenizer.onnx

A teacher becomes a bundle without training, of all its layers:
  pocketquery export --teacher multilingual --subvector 8 --four-bit --queries queries.tsv \
      --corpus corpus.jsonl --output bundle
  pocketquery export --teacher encoder --vocabulary 30000 --texts texts.txt.gz \
      --queries queries.tsv --output bundle

The queries calibrate the int8 encoder. With a corpus, it must also rank the documents as the float
student does; MatMuls go back to float, one by one, until it does. A teacher's bundle must rank as
the teacher does.
"""


@dataclass(frozen=True, kw_only=True)
class ExportCommandOptions(Settings):
    """What ``pocketquery export`` takes."""

    student: Annotated[
        str | None, "what pocketquery distill wrote (default: the teacher, small)", Option("FOLDER")
    ] = None
    bundle: Annotated[
        str | None, "of this one, write the encoder with its tokenizer alone", Option("BUNDLE")
    ] = None
    output: Annotated[str, "the bundle: a folder, or a file.zip", Option("PATH")]
    queries: Annotated[str | None, "queries as tsv (id, text) or jsonl", Option("FILE")] = None
    corpus: Annotated[
        str | None, "documents for the ranking gate: corpus.jsonl", Option("FILE")
    ] = None
    qrels: Annotated[
        str | None, "judgements, so that the gate looks at nDCG@10 too", Option("FILE")
    ] = None
    teacher: Annotated[
        str | None, "encodes the corpus (default: the student's teacher)", Option("NAME")
    ] = None
    small: Annotated[
        SmallTeacherOptions,
        Part("subvector", "max_length", vocabulary_size="vocabulary", texts="texts"),
    ] = SmallTeacherOptions()
    cache: Annotated[str | None, "keep the teacher's document vectors here", Option("FOLDER")] = (
        None
    )
    gate_queries: Annotated[int, whole(), "of the ranking gate, at most"] = 1000
    thresholds: Annotated[
        GateThresholds,
        Part(overlap="least-overlap", ndcg_loss="most-ndcg-loss", cosine="least-cosine"),
    ] = GateThresholds()
    graph: Annotated[GraphOptions, Part("adapter_rank", "adapter_train")] = GraphOptions()
    training: Annotated[
        TrainingOptions | None,
        Part(objective="training-step", part="training-part", views="training-views"),
    ] = None
    quantization: Annotated[QuantizationOptions, Part("four_bit")] = QuantizationOptions()
    how: Annotated[ExportOptions, Part("with_tokenizer")] = ExportOptions()
    name: Annotated[str | None, "of the bundle (default: the student folder's name)"] = None
    version: Annotated[str, "of the encoder within its space"] = "1"
    languages: Annotated[
        tuple[str, ...], "that the encoder was made for: en de pt-BR (default: unknown)"
    ] = ()
    license: Annotated[str, "of the weights", Option("SPDX")] = "LicenseRef-unstated"
    signing_key: Annotated[
        str | None, "Ed25519 private key: PEM file or 64 hex digits", Option("FILE")
    ] = None
    sentence_transformers: Annotated[
        str | None, "also write that layout, with onnx/", Option("FOLDER")
    ] = None
    zip: Annotated[bool, "write PATH.zip, one file, instead of a folder"] = False
    json: AsJson = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.qrels and not self.corpus:
            raise InvalidInputError(
                "--qrels is given without --corpus; the ranking gate needs both"
            )
        if self.bundle:
            others = (self.student, self.teacher, self.corpus, self.signing_key, self.zip)
            if any(others) or not self.how.with_tokenizer:
                raise InvalidInputError(
                    "--bundle goes with --with-tokenizer and --output, and with --queries and "
                    "--json where they help: it writes encoder_with_tokenizer.onnx alone"
                )
            return
        if not self.student and not self.teacher:
            raise InvalidInputError(
                "nothing to export; give --student, --teacher alone, or --bundle"
            )
        if not self.queries:
            raise InvalidInputError(
                "--queries is missing: some hundred queries set the scales of int8"
            )
        if self.student and self.small != SmallTeacherOptions():
            raise InvalidInputError(
                "--vocabulary, --texts, --subvector and --max-length make a teacher small; "
                "leave them out beside --student, which has its own"
            )


def export(subparsers: Any) -> None:
    """Add ``pocketquery export`` to the shell's parsers."""
    add_settings_command(
        subparsers,
        "export",
        "Export a distilled student as an int8 bundle that a device can load.",
        _EXPORT_EPILOG,
        ExportCommandOptions,
        _export,
    )


def _export(options: ExportCommandOptions) -> int:
    # torch and onnx come with these: only when the command runs, not when its help is shown.
    from pocketquery.export.bundle.bundling import export_bundle
    from pocketquery.server.corpus import read_queries
    from pocketquery.server.modeling import SentenceEncoder
    from pocketquery.server.modeling.resolve import model_name

    output = Path(options.output)
    if options.bundle:
        return _export_text_graph(options, options.bundle, output)
    if options.zip and output.suffix != ".zip":
        output = output.with_name(output.name + ".zip")
    how = replace(
        options.how,
        graph=options.graph,
        thresholds=options.thresholds,
        training=options.training,
        quantization=options.quantization,
    )
    queries = read_queries(str(options.queries))
    source = options.student or str(options.teacher)
    student = SentenceEncoder.load(source)
    gate = _gate_data(options, student, queries)
    if options.student is None:
        student = _small(options.small, student, [query.text for query in queries])
    report = export_bundle(
        student,
        output,
        calibration_texts=[query.text for query in queries],
        gate=gate,
        options=how,
        name=options.name or model_name(source),
        license=options.license,
        version=options.version,
        languages=options.languages,
        signing_key=options.signing_key,
        sentence_transformers=options.sentence_transformers,
        progress=_say,
    )
    _print_export(report, as_json=options.json)
    return 0


def _export_text_graph(options: ExportCommandOptions, bundle: str, output: Path) -> int:
    from pocketquery.export.bundle.bundling import text_graphs
    from pocketquery.server.corpus import read_queries

    queries = read_queries(options.queries) if options.queries else []
    plugin = text_graphs()
    opened = Bundle.open(installed_bundle(bundle) or bundle)
    report = plugin.write_string_graph(opened, output, [query.text for query in queries])
    if options.json:
        print(json.dumps(report.to_dict()))
    else:
        english, golden = report.english, report.golden
        print(f"{output}: {report.bytes / 1e6:.1f} MB, text in, vector out")
        print(
            f"  ids equal to the tokenizer's: {english.equal} of {english.texts} English "
            f"questions, {golden.equal} of {golden.texts} golden texts; vectors equal with them"
        )
    return 0


def _small(
    options: SmallTeacherOptions, teacher: SentenceEncoder, queries: Sequence[str]
) -> SentenceEncoder:
    from pocketquery.export.small_teacher import small_teacher
    from pocketquery.server.corpus.readers.lines import numbered_lines

    _say("making the teacher small")
    lines = numbered_lines(options.texts) if options.texts else ()
    return small_teacher(
        teacher,
        [line for _, line in lines] or queries,
        vocabulary_size=options.vocabulary_size,
        subvector=options.subvector,
        max_length=options.max_length,
    )


def _gate_data(
    options: ExportCommandOptions, student: SentenceEncoder, queries: Sequence[Any]
) -> GateData | None:
    from pocketquery.export.quantization.ranking_gate import GateData
    from pocketquery.server.corpus import read_documents, read_judgements
    from pocketquery.server.evaluation.document_vectors import encode_documents

    if not options.corpus:
        _say("no --corpus: the ranking gate is left out, and the manifest says so")
        return None
    documents = list(read_documents(options.corpus))
    judgements = read_judgements(options.qrels) if options.qrels else None
    if judgements is not None:
        queries = [query for query in queries if query.id in judgements]
        if not queries:
            raise InvalidInputError(
                f"{options.qrels} judges none of the queries of {options.queries}; expected "
                "queries and judgements of one data set, or leave --qrels out"
            )
    teacher: Teacher = student
    if options.student is not None:
        teacher = _teacher(options, student)
        check_teachers_space(f"the student {options.student}", student.space_id, teacher)
    vectors = encode_documents(teacher, documents, cache=options.cache, show_progress_bar=True)
    asked = _spread(queries, options.gate_queries)
    return GateData(
        asked,
        [document.id for document in documents],
        vectors,
        judgements,
        None if options.student else student.encode_query([query.text for query in asked]),
    )


def _teacher(options: ExportCommandOptions, student: SentenceEncoder) -> Teacher:
    """The teacher that is given, or the one the student names."""
    from pocketquery.distill.teachers import load_teacher

    if options.teacher:
        return load_teacher(options.teacher)
    name = student.space.get("teacher")
    if not name:
        raise UnknownModelError(
            f"{options.student} does not name its teacher, which encodes the corpus for the "
            "ranking gate; give --teacher"
        )
    try:
        return load_teacher(str(name))
    except UnknownModelError as error:  # a teacher in a folder is known by that folder's name only
        raise UnknownModelError(
            f'{options.student} was distilled from "{name}", which encodes the corpus for the '
            "ranking gate and is not to be found by that name; give its place with --teacher"
        ) from error


def check_teachers_space(what: str, space_id: str, teacher: Teacher) -> None:
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
