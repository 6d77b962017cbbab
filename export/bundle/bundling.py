"""From a distilled student to a verified bundle: graph, int8, gate, tokenizer, golden texts.

The same input gives the same bytes: nothing here reads the clock, and what is random is seeded.
"""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from pocketquery.export.adapter import adapter_tensors, fixed_tensors
from pocketquery.export.bundle.bundle_files import publish
from pocketquery.export.bundle.sentence_transformers_layout import write_onnx_files
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.parity import (
    Agreement,
    check_graph,
    check_tokenizer,
    row_cosines,
)
from pocketquery.export.quantization.four_bit import BLOCK, OPSET
from pocketquery.export.quantization.held_out import TextSplit, split_texts, spread
from pocketquery.export.quantization.quantization import quantizable_matmuls, quantize
from pocketquery.export.quantization.ranking_gate import GateData, GateReport, GateStep, pass_gate
from pocketquery.export.quantization.smoothing import activation_ranges, smooth
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import (
    ExportOptions,
    TrainingOptions,
)
from pocketquery.export.training_step.parity import StepAgreement
from pocketquery.export.training_step.training_step import TrainingStep, build_training_step
from pocketquery.sdk.bundle.manifest import (
    ENCODER_FILE,
    GOLDEN_FILE,
    MANIFEST_FILE,
    STRING_GRAPH_FILE,
    Manifest,
    Space,
)
from pocketquery.sdk.bundle.signature import Key, key_id, public_key_of
from pocketquery.sdk.bundle.writing import BUNDLE_FOLDER, file_entries
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import real_path, sha256_bytes
from pocketquery.sdk.folders import check_replaceable
from pocketquery.sdk.plugins import load_plugin
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer
from pocketquery.server.evaluation.diverse_texts import DIVERSE_TEXTS
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.layout import check_model_replaceable
from pocketquery.server.modeling.tokenizer_file import TokenizerFile, tokenizer_file

__all__ = ["ExportReport", "export_bundle", "text_graphs"]

_QUERY = "query"
_COMPARED_QUERIES = 2000  # queries whose ids the graph that takes text must give


@dataclass(frozen=True)
class ExportReport:
    """What was written and how near it is to the student.

    Attributes:
        path: the bundle.
        manifest: as written; its ``quality`` holds the other fields.
        graph: float graph against torch.
        cosine_mean, cosine_min: int8 against float, over texts that calibration did not see.
        held_out: how many those are: ``given``, of the caller's, and ``generated``, of random
            pieces of the vocabulary.
        gate: the ranking gate's report; None where no gate data was given.
        float_bytes, int8_bytes: sizes of the two graphs.
        training: the training step against torch; None where the bundle has none.
        string_graph: the graph that takes text against the tokenizer; None where there is none.
    """

    path: Path
    manifest: Manifest
    graph: Agreement
    cosine_mean: float
    cosine_min: float
    held_out: Mapping[str, int]
    gate: GateReport | None
    float_bytes: int
    int8_bytes: int
    training: StepAgreement | None = None
    string_graph: Any = None


@dataclass(frozen=True)
class _Quantized:
    model: onnx.ModelProto
    gate: GateReport | None
    cosine_mean: float
    cosine_min: float


def export_bundle(
    student: SentenceEncoder | str | Path,
    output: Path | str,
    *,
    calibration_texts: Sequence[str],
    gate: GateData | None = None,
    options: ExportOptions | None = None,
    name: str,
    license: str,
    version: str = "1",
    languages: Sequence[str] = (),
    signing_key: Key | None = None,
    golden_texts: Sequence[str] | None = None,
    sentence_transformers: Path | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> ExportReport:
    """Export ``student`` into a bundle, which is verified before it replaces an older one.

    Args:
        student: a distilled encoder or its folder.
        output: the bundle's folder, or a file ending in ``.zip``.
        calibration_texts: queries of the kind the device will see; a few hundred are enough. They
            set the smoothing factors, but for a share that is held out; no text of them is stored.
        gate: queries and documents for the ranking gate; None leaves it out, and says so in the
            manifest.
        options: graph, recipe and thresholds.
        name: the bundle's name.
        license: of the weights, as an SPDX expression.
        version: of this encoder within its space.
        languages: that it was made for, as codes ("en", "pt-BR"); a query in the script of none of
            them is searched by words alone.
        signing_key: Ed25519 private key: raw bytes, hexadecimal or a PEM file.
        golden_texts: texts that are stored with their vectors and replayed by ``verify``; public
            ones in many scripts unless given.
        sentence_transformers: also write the student with ``onnx/`` files into this folder.
        progress: told what is being done, one line a step.

    Raises:
        UnknownModelError: an architecture, head or tokenizer that cannot be exported.
        ArtifactError: a graph or the tokenizer does not compute what the student does, or the
            ranking gate fails. Nothing is written.
        InvalidInputError: no texts, a bad key, ``output`` holds something else, it and
            ``sentence_transformers`` lie in one another, or that is the student's own folder.
        MissingExtraError: the packages of the extra "export" (or "sign") are not installed, or
            packages/pocketquery-mobile is not.
        OSError: the disk is full or not writable; ``output`` is as it was before.
    """
    options = options or ExportOptions()
    say = progress or (lambda line: None)
    output = Path(output)
    _check_arguments(output, calibration_texts, signing_key)
    if sentence_transformers is not None:
        _check_apart(output, Path(sentence_transformers))
        check_model_replaceable(Path(sentence_transformers))
    if not isinstance(student, SentenceEncoder):
        student = SentenceEncoder.load(student)
    if sentence_transformers is not None:
        student.check_kept(sentence_transformers)
    student = student.with_device_ids()
    student.eval()

    # 1. The tokenizer first: it is cheap, and a vocabulary that cannot ship is found at once.
    file = tokenizer_file(student.tokenizer)
    plugin = text_graphs() if options.with_tokenizer else None
    if plugin is not None:
        plugin.check_possible(file)
    tokenizer = file.open(student.max_length)
    prompt = student.prompts.get(_QUERY, "")
    split = split_texts(
        calibration_texts,
        [] if gate is None else [query.text for query in gate.queries],
        tokenizer,
        most=options.calibration_texts,
    )
    calibration = [prompt + text for text in split.calibration]
    probes = [*DIVERSE_TEXTS, *spread(calibration, options.parity_texts)]
    long = " ".join(DIVERSE_TEXTS * (student.max_length // 100 + 1))  # over a hundred words each
    check_tokenizer(student, tokenizer, [*DIVERSE_TEXTS, long, *calibration])

    # 2. The float graph, equal to torch.
    say("building the graph")
    graph_options = options.graph
    if options.quantization.four_bit:
        graph_options = dataclasses.replace(graph_options, opset=max(graph_options.opset, OPSET))
    float_model = build_graph(student, graph_options)
    graph = check_graph(student, GraphSession(float_model), probes)

    # 3. int8 that ranks as the float graph does.
    say("calibrating and quantising")
    quantized = _quantize_gated(float_model, split, gate, tokenizer, prompt, options, say)

    # 4. The training step, equal to torch.
    step = _training_step(student, quantized.model, options.training, say)

    # 5. The graph that takes text, equal to tokenizer and encoder.
    draft = _manifest(student, file, name, license, version)._replace(languages=tuple(languages))
    draft.check()
    texts = DIVERSE_TEXTS if golden_texts is None else golden_texts
    more = {} if step is None else step.files()
    string_graph = None
    if plugin is not None:
        say("putting the tokenizer into a second graph")
        graph_of_text = plugin.build_string_graph(quantized.model, draft, file)
        string_graph = plugin.check_string_graph(
            graph_of_text,
            quantized.model,
            tokenizer,
            kind=file.kind,
            queries=spread(calibration_texts, _COMPARED_QUERIES),
            golden_texts=texts,
            gate=gate,
            thresholds=options.thresholds,
        )
        more[STRING_GRAPH_FILE] = graph_of_text.SerializeToString(deterministic=True)

    # 6. The bundle, opened and replayed before it is published.
    say("writing and verifying")
    report = ExportReport(
        output,
        draft,
        graph,
        quantized.cosine_mean,
        quantized.cosine_min,
        {"given": len(split.supplied), "generated": len(split.generated)},
        quantized.gate,
        float_model.ByteSize(),
        quantized.model.ByteSize(),
        None if step is None else step.agreement,
        string_graph,
    )
    draft = draft._replace(quality=_quality(report))
    manifest = publish(output, draft, file, quantized.model, texts, signing_key, more)
    if sentence_transformers is not None:
        write_onnx_files(student, float_model, quantized.model, sentence_transformers)
    return dataclasses.replace(report, manifest=manifest)


def text_graphs() -> Any:
    """What makes graphs that take text; raises MissingExtraError where it is not installed."""
    return load_plugin("pocketquery.text_graphs", "text_graph", "./packages/pocketquery-mobile")


def _check_arguments(output: Path, texts: Sequence[str], signing_key: Key | None) -> None:
    """What would otherwise fail only after minutes of work."""
    if isinstance(texts, str) or not texts:
        raise InvalidInputError("calibration_texts holds no texts; expected some hundred queries")
    if signing_key is not None:
        key_id(public_key_of(signing_key))
    if output.suffix != ".zip":
        check_replaceable(output, BUNDLE_FOLDER)
    elif output.exists() and not _is_zipped_bundle(output):
        raise InvalidInputError(
            f"{output} exists and is not a bundle; it is left alone. Name another place or "
            "remove it"
        )


def _check_apart(output: Path, folder: Path) -> None:
    """Each replaces all of its folder, and would take the other one with it."""
    one, other = real_path(output), real_path(folder)
    if one == other or one in other.parents or other in one.parents:
        raise InvalidInputError(
            f"the bundle goes to {output} and the sentence-transformers layout to {folder}; "
            "expected two folders, neither in the other"
        )


def _is_zipped_bundle(output: Path) -> bool:
    if not zipfile.is_zipfile(output):
        return False
    with zipfile.ZipFile(output) as archive:
        return MANIFEST_FILE in archive.namelist()


def _quantize_gated(
    float_model: onnx.ModelProto,
    split: TextSplit,
    gate: GateData | None,
    tokenizer: Tokenizer,
    prompt: str,
    options: ExportOptions,
    say: Callable[[str], None],
) -> _Quantized:
    def ids(texts: Iterable[str]) -> list[list[int]]:
        return [tokenizer.encode(prompt + text) for text in texts]

    recipe = options.quantization
    source = float_model
    if recipe.smoothing_alpha is not None:
        ranges = activation_ranges(float_model, ids(split.calibration))
        block = BLOCK if recipe.four_bit else 1
        source = smooth(float_model, ranges, alpha=recipe.smoothing_alpha, block=block)

    def make(excluded: Sequence[str]) -> onnx.ModelProto:
        return quantize(source, recipe, excluded=excluded)

    if gate is None:
        model = make(())
        held_out = ids(split.held_out)
        expected = GraphSession(float_model).encode(held_out)
        agreement = row_cosines(expected, GraphSession(model).encode(held_out))
        return _Quantized(model, None, float(agreement.mean()), float(agreement.min()))
    model, report = pass_gate(
        float_model,
        make,
        # What float weights cannot mend is not searched for among them: pieces that are gone.
        quantizable_matmuls(source) if gate.expected is None else (),
        gate,
        ids(query.text for query in gate.queries),
        ids(split.held_out),
        options.thresholds,
        on_step=lambda step: say(_describe(step)),
    )
    return _Quantized(model, report, report.last.cosine_mean, report.last.cosine_min)


def _training_step(
    student: SentenceEncoder,
    model: onnx.ModelProto,
    training: TrainingOptions | None,
    say: Callable[[str], None],
) -> TrainingStep | None:
    if training is None:
        return None
    say("tracing the training step")
    return build_training_step(
        student,
        adapter_tensors(model),
        training,
        encoder_sha256=sha256_bytes(model.SerializeToString(deterministic=True)),
        fixed=fixed_tensors(model),
    )


def _manifest(
    student: SentenceEncoder, file: TokenizerFile, name: str, license: str, version: str
) -> Manifest:
    required = {ENCODER_FILE: b"", GOLDEN_FILE: b"", file.file: b""}  # replaced in publish
    return Manifest(
        name=name,
        space=Space(student.space_id, student.dimension),
        max_length=student.max_length,
        tokenizer=file.spec,
        files=file_entries(required),
        license=license,
        encoder_version=version,
        prompts=student.prompts,
        default_prompt_name=_QUERY if _QUERY in student.prompts else None,
    )


def _quality(report: ExportReport) -> dict[str, Any]:
    """The manifest's ``quality``; figures are rounded, so that it reads well."""
    quality: dict[str, Any] = {
        "int8_cosine": {
            "mean": report.cosine_mean,
            "min": report.cosine_min,
            "held_out": dict(report.held_out),
        },
        "float_graph": dataclasses.asdict(report.graph),
        "bytes": {"float": report.float_bytes, "int8": report.int8_bytes},
        "gate": None if report.gate is None else report.gate.to_dict(),
    }
    if report.training is not None:
        quality["training_step"] = dataclasses.asdict(report.training)
    if report.string_graph is not None:
        quality["with_tokenizer"] = report.string_graph.to_dict()
    rounded: dict[str, Any] = json.loads(
        json.dumps(quality), parse_float=lambda text: float(f"{float(text):.6g}")
    )
    return rounded


def _describe(step: GateStep) -> str:
    ndcg = "" if step.ndcg is None else f", nDCG@10 {step.ndcg:.4f}"
    return (
        f"gate: {len(step.excluded)} MatMuls in float, top-10 overlap {step.overlap:.3f}{ndcg}, "
        f"least cosine {step.cosine_min:.4f}"
    )
