"""Write conformance/graphs: encoders of every kind that is exported, and vectors of token ids.

For whoever runs ``encoder.onnx`` without onnxruntime. A graph is drawn, not trained; some are of
widths that are no multiple of what processors take at once. ``expected.json.gz`` has, by graph,
``calls``: ``input_ids`` and ``attention_mask`` (batch, length), and the ``vectors`` (batch,
dimension) that onnxruntime gives; an id beyond the vocabulary is ``refused``.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from torch import nn

from pocketquery.distill.pruning.product_quantization import quantise_vocabulary
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.quantization.four_bit import BLOCK, OPSET
from pocketquery.export.quantization.quantization import quantize
from pocketquery.export.quantization.smoothing import activation_ranges, smooth
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import GraphOptions, QuantizationOptions
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, electra_teacher, sentences, xlmr_teacher

__all__ = ["TARGET", "main"]

TARGET = Path(__file__).parents[2] / "conformance" / "graphs"


def main() -> None:
    """Write everything anew."""
    TARGET.mkdir(exist_ok=True)
    expected: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, student, model in _graphs(Path(folder)):
            graph = gzip.compress(model.SerializeToString(deterministic=True), mtime=0)
            (TARGET / f"{name}.onnx.gz").write_bytes(graph)
            session = GraphSession(model)
            expected[name] = {
                "calls": [_called(session, ids, mask) for ids, mask in _calls(student)]
            }
    data = json.dumps(expected, separators=(",", ":")).encode()
    (TARGET / "expected.json.gz").write_bytes(gzip.compress(data, mtime=0))


def _graphs(folder: Path) -> Iterator[tuple[str, SentenceEncoder, onnx.ModelProto]]:
    plain = bert_teacher(layers=2, width=32)
    one = bert_teacher(layers=1, width=32)
    yield "mean-float", one, build_graph(one, GraphOptions(opset=18))
    yield "mean-int8", plain, quantize(build_graph(plain))
    head = nn.Sequential(nn.Linear(32, 21), nn.GELU(), nn.Linear(21, 15), nn.Tanh())
    headed = bert_teacher(layers=1, width=32, head=head)
    yield "head-int8", headed, quantize(build_graph(headed))
    first = bert_teacher(
        layers=1, width=32, pooling="cls", head=nn.Sequential(nn.Linear(32, 32), nn.ReLU())
    )
    yield "cls-int8", first, quantize(build_graph(first, GraphOptions(adapter_train="up")))
    uneven = bert_teacher(layers=2, width=20)
    yield "uneven-int8", uneven, quantize(build_graph(uneven, GraphOptions(adapter_rank=3)))
    bare = bert_teacher(layers=1, width=20)
    yield "uneven-float", bare, build_graph(bare, GraphOptions(adapter_rank=0))
    smoothed = bert_teacher(layers=1, width=32)
    graph = build_graph(smoothed, GraphOptions(opset=21))
    ids: list[list[int]] = smoothed.tokenizer(sentences(20))["input_ids"]
    yield "smoothed-int8", smoothed, quantize(smooth(graph, activation_ranges(graph, ids)))
    coded = bert_teacher(layers=1, width=32)  # its vocabulary is smaller than a place's codes
    coded.backbone.config.vocabulary_subvector = 8
    yield "codes-int8", coded, quantize(build_graph(coded))
    fine = bert_teacher(layers=2, width=64)
    fine.backbone.config.vocabulary_subvector = 8
    quantise_vocabulary(fine, sentences(50), 8, seed=0, fine=20)
    graph = build_graph(fine, GraphOptions(opset=OPSET, adapter_layers=1))
    ids = fine.tokenizer(sentences(20))["input_ids"]
    graph = smooth(graph, activation_ranges(graph, ids), block=BLOCK)
    yield "fine-4bit", fine, quantize(graph, QuantizationOptions(four_bit=True))
    yield "electra-int8", electra_teacher(), quantize(build_graph(electra_teacher()))
    for activation in ("relu", "silu", "gelu_new", "quick_gelu"):
        active = bert_teacher(layers=1, width=20)
        active.backbone.config.hidden_act = activation
        name = activation.replace("_", "-")
        yield f"{name}-int8", active, quantize(build_graph(active, GraphOptions(adapter_rank=2)))
    multilingual = xlmr_teacher(folder, layers=1, width=32)
    yield "xlmr-int8", multilingual, quantize(build_graph(multilingual))


def _calls(student: SentenceEncoder) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    """Texts alone, of one word and of many; then three of different lengths at once, padded."""
    texts = [*sentences(6), "", "water", " ".join(sentences(4))]
    found: list[list[int]] = student.tokenizer(texts, truncation=True, max_length=40)["input_ids"]
    for ids in found:
        yield [ids], [[1] * len(ids)]
    some = [found[0], found[7], found[1]]
    longest = max(len(ids) for ids in some)
    pad = int(student.tokenizer.pad_token_id)
    yield (
        [ids + [pad] * (longest - len(ids)) for ids in some],
        [[1] * len(ids) + [0] * (longest - len(ids)) for ids in some],
    )
    yield [[*found[0][:-1], len(student.tokenizer) + 7]], [[1] * len(found[0])]


def _called(session: GraphSession, ids: list[list[int]], mask: list[list[int]]) -> dict[str, Any]:
    called = {"input_ids": ids, "attention_mask": mask}
    try:
        vectors = session.encode_batch(np.array(ids, np.int64), np.array(mask, np.int64))
    except Exception:  # whatever class onnxruntime gives it
        return {**called, "refused": True}
    return {**called, "vectors": [[float(value) for value in row] for row in vectors]}


if __name__ == "__main__":
    main()
