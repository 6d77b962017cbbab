"""The graph that takes text of a bundle that is there, the built-in encoder's among them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.golden import parse_golden
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, GOLDEN_FILE, STRING_GRAPH_FILE
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import real_path, write_atomic
from pocketquery.server.modeling.tokenizer_file import TokenizerFile
from pocketquery_mobile.agreement import StringGraphReport, check_string_graph
from pocketquery_mobile.graph import build_string_graph, check_possible

__all__ = ["write_string_graph"]


def write_string_graph(
    bundle: Bundle, output: Path | str, queries: Sequence[str] = ()
) -> StringGraphReport:
    """Write the bundle's encoder with its tokenizer in it as one ONNX file. ::

        write_string_graph(Bundle.open("default"), "encoder_with_tokenizer.onnx")

    The bundle stays as it is. Before anything is written, the graph is held to the bundle's
    tokenizer and to its golden texts.

    Args:
        bundle: whose encoder.
        output: the file, which must not be there yet; not in the bundle.
        queries: texts of the kind users type, to compare ids on beside the golden texts.

    Raises:
        UnknownModelError: the tokenizer has a setting that the operators cannot follow.
        ArtifactError: the graph gives other ids or vectors; nothing is written.
        InvalidInputError: ``output`` is there already, or in the bundle.
        MissingExtraError: onnxruntime-extensions is not installed.
    """
    output = Path(output)
    if output.is_dir():
        raise InvalidInputError(f"{output} is a folder; name the file, {STRING_GRAPH_FILE}")
    if real_path(bundle.path) in real_path(output).parents or output.exists():
        raise InvalidInputError(
            f"{output} is there already or in the bundle; name a new file beside it"
        )
    spec = bundle.manifest.tokenizer
    file = TokenizerFile(spec.kind, spec.file, bundle.read(spec.file), spec.options)
    check_possible(file)
    encoder = onnx.load_from_string(bundle.read(ENCODER_FILE))
    graph = build_string_graph(encoder, bundle.manifest, file)
    report = check_string_graph(
        graph,
        encoder,
        file.open(bundle.manifest.max_length),
        kind=file.kind,
        queries=queries,
        golden_texts=[golden.text for golden in parse_golden(bundle.read(GOLDEN_FILE))],
    )
    write_atomic(output, graph.SerializeToString(deterministic=True))
    return report
