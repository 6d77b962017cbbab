"""Read a bundle back into a student, to train it further without the student's folder.

Every weight is in the graph, rounded: integers times their scale, and of a smoothed product (Xiao
et al., "SmoothQuant", equation 3) times the factors that its input is multiplied by. What comes
back computes in float what the bundle computes in int8, up to the rounding of activations. The
names are those that ``export`` gives (export/trunk.py, export/adapter.py).
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from pocketquery.distill.pruning.product_codes import expand_codes
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.golden import parse_golden
from pocketquery.sdk.bundle.installed import bundles, installed_bundle
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, GOLDEN_FILE, MANIFEST_FILE
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import MissingExtraError, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import to_device

__all__ = ["bundle_student", "load_student"]

_LARGEST_DISTANCE = 0.02  # of the golden vectors, mean of 1 - cos
_ACTIVATIONS = {"Gelu": nn.GELU, "Tanh": nn.Tanh, "Relu": nn.ReLU}
# Outputs of products; export names those of the attention and of the head.
_TRUNK_NODE = re.compile(r"/(encoder/layer\.\d+/.+)/Add_output_0")
_ATTENTION_NODE = re.compile(r"layers\.(\d+)\.(query|key|value)\.output")
_NORM = re.compile(r"/((?:embeddings|encoder/layer\.\d+/.+)/LayerNorm)/LayerNormalization")


def load_student(
    source: str | Path, *, public_key: Key | None = None, device: str = "cpu"
) -> SentenceEncoder:
    """A student to learn on from.

    Args:
        source: folder of a student, as ``distill`` saves it, or a bundle: a folder, a zip or the
            name of an installed one, such as ``"default"``.
        public_key: an Ed25519 public key that must have signed the bundle, as for ``sdk.load``.
        device: torch device.

    Raises:
        UnknownModelError: neither, or a bundle that :func:`bundle_student` does not read.
        InvalidInputError, MissingExtraError, ArtifactError: as there.
    """
    place = Path(source)
    here = (place / MANIFEST_FILE).is_file() or place.is_file()
    if installed_bundle(source) is not None or here:
        return bundle_student(Bundle.open(source, public_key=public_key), device=device)
    try:
        return SentenceEncoder.load(source, device=device)
    except UnknownModelError as error:
        if place.exists():
            raise
        raise UnknownModelError(f"{error}; installed bundles: {', '.join(bundles())}") from error


def bundle_student(bundle: Bundle, *, device: str = "cpu") -> SentenceEncoder:
    """The student that ``bundle`` was exported from, of its rounded weights and without its
    adapter.

    Args:
        bundle: of a BERT-like student with a WordPiece vocabulary.
        device: torch device.

    Raises:
        UnknownModelError: another kind of student, or a graph that this version of ``export`` does
            not write; says what was found.
        InvalidInputError: this machine has no such device.
        MissingExtraError: onnx is not installed.
        ArtifactNotFoundError, CorruptArtifactError: a file of the bundle is missing or changed.
    """
    manifest = bundle.manifest
    if manifest.tokenizer.kind != "wordpiece":
        raise UnknownModelError(
            f"the bundle {manifest.name!r} has a {manifest.tokenizer.kind} tokenizer, and only a "
            "WordPiece one can be read back; take the student's folder"
        )
    graph = _Graph(bundle.read(ENCODER_FILE), manifest.name)
    tokenizer = _tokenizer(bundle)
    student = SentenceEncoder(
        _backbone(graph, len(tokenizer)),
        tokenizer,
        pooling="cls" if "pooling.first" in graph.arrays else "mean",
        head=_head(graph),
        prompts=manifest.prompts,
        max_length=manifest.max_length,
        space={
            "space_id": manifest.space.id,
            "dimension": manifest.space.dimension,
            "bundle": manifest.files[ENCODER_FILE].sha256,
        },
        name=manifest.name,
    )
    to_device(student, device)
    golden = parse_golden(bundle.read(GOLDEN_FILE))
    vectors = student.encode([one.text for one in golden])
    expected = np.array([one.vector for one in golden], np.float32)
    apart = float(1 - (vectors * expected).sum(axis=1).mean())
    if not apart <= _LARGEST_DISTANCE:
        raise graph.unreadable(
            f"read back, its golden texts are {apart:.3f} from their vectors (mean of 1 - cos), at "
            f"most {_LARGEST_DISTANCE:g} is expected"
        )
    return student


class _Graph:
    """Arrays, and products with their weights, by name."""

    def __init__(self, data: bytes, name: str) -> None:
        try:
            import onnx
            from onnx import numpy_helper
        except ImportError as error:
            raise MissingExtraError.of("onnx", "export") from error
        self.name = name
        try:
            model = onnx.load_model_from_string(data)
        except Exception as error:  # protobuf's, whose class depends on its version
            raise self.unreadable(f"{ENCODER_FILE} is no ONNX graph") from error
        self.nodes: list[Any] = list(model.graph.node)
        self.arrays: dict[str, Any] = {
            one.name: numpy_helper.to_array(one) for one in model.graph.initializer
        }
        self._makers = {output: node for node in self.nodes for output in node.output}
        self._parts = {n.input[0]: list(n.output) for n in self.nodes if n.op_type == "Split"}

    def unreadable(self, problem: str) -> UnknownModelError:
        return UnknownModelError(
            f"the bundle {self.name!r} cannot be read back into a student: {problem}; take the "
            "student's folder, or export it with this version"
        )

    def stored(self, name: str) -> Any:
        """The array as it is stored."""
        if name not in self.arrays:
            raise self.unreadable(f"its graph has no {name}")
        return self.arrays[name]

    def array(self, name: str) -> Any:
        """The array, float32 where it is stored as integers with a scale."""
        if f"{name}_quantized" not in self.arrays:
            return self.stored(name)
        zero = self.stored(f"{name}_zero_point").astype(np.float32)
        integers = self.stored(f"{name}_quantized").astype(np.float32) - zero
        return integers * self.stored(f"{name}_scale")

    @cached_property
    def products(self) -> dict[str, tuple[Floats, Floats]]:
        """By its output's name weight float32 (out, in) and bias (out,) of every product; those of
        query, key and value apart."""
        by_output: dict[str, tuple[Floats, Floats]] = {}
        for node in self.nodes:
            if node.op_type == "DynamicQuantizeMatMul" and len(node.input) == 5:
                source, stored, scale, zero, bias = node.input
                if zero:
                    raise self.unreadable(f"the weights of {node.name} have zero points")
                weight = self.stored(stored).astype(np.float32) * self.stored(scale)
            elif node.op_type == "Add" and (product := self._product_of(node)):
                source, weight = product
                (bias,) = (name for name in node.input if name in self.arrays)
            else:
                continue
            smoothing = self._makers.get(source)
            if smoothing is not None and smoothing.op_type == "Mul":
                factors = self.arrays.get(smoothing.input[1])
                if factors is not None:
                    weight = factors[:, None] * weight
            names = self._parts.get(node.output[0], [node.output[0]])
            weights, biases = (np.split(of, len(names)) for of in (weight.T, self.stored(bias)))
            by_output |= zip(names, zip(weights, biases, strict=True), strict=True)
        return by_output

    def _product_of(self, add: Any) -> tuple[str, Any] | None:
        """Input and weight (in, out) of the product to which ``add`` adds a bias, or None: one in
        float, or one of integers as onnxruntime's quantiser writes it, which ``export`` fuses."""
        made = [name for name in add.input if name not in self.arrays]
        product = self._makers.get(made[0]) if len(made) == 1 else None
        if product is not None and product.op_type == "MatMul" and product.input[1] in self.arrays:
            return product.input[0], self.arrays[product.input[1]]
        for kind in ("Mul", "Cast"):  # scaled, and before that made float
            if product is None or product.op_type != kind:
                return None
            product = self._makers.get(product.input[0])
        if product is None or product.op_type != "MatMulInteger":
            return None
        rounding = self._makers[product.input[0]]
        return rounding.input[0], self.array(product.input[1].removesuffix("_quantized"))


def _tokenizer(bundle: Bundle) -> Any:
    data = bundle.read(bundle.manifest.tokenizer.file)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(data.decode("utf-8"))
    special = {one["content"] for one in json.loads(data)["added_tokens"] if one["special"]}
    named = {
        role: token
        for role, token in (
            ("unk_token", "[UNK]"),
            ("sep_token", "[SEP]"),
            ("pad_token", "[PAD]"),
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
        )
        if token in special
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)


def _backbone(graph: _Graph, vocabulary: int) -> BertModel:
    if "word.codes" in graph.arrays:
        words = expand_codes(graph.arrays["word.codes"], graph.array("word.centroids"))
    else:
        words = graph.array("embeddings.word_embeddings.weight")
    positions = graph.array("embeddings.position_embeddings.weight")
    types = np.zeros((2, words.shape[1]), np.float32)
    types[0] = graph.array("token_type_embedding").reshape(-1)
    state = {
        "embeddings.word_embeddings.weight": words,
        "embeddings.position_embeddings.weight": positions,
        "embeddings.token_type_embeddings.weight": types,
    }
    for output, (weight, bias) in graph.products.items():
        trunk, attention = _TRUNK_NODE.fullmatch(output), _ATTENTION_NODE.fullmatch(output)
        name = trunk[1].replace("/", ".") if trunk else None
        if attention:
            name = f"encoder.layer.{attention[1]}.attention.self.{attention[2]}"
        if name:
            state |= {f"{name}.weight": weight, f"{name}.bias": bias}
    attentions = [node for node in graph.nodes if node.op_type == "MultiHeadAttention"]
    norms = [node for node in graph.nodes if node.op_type == "LayerNormalization"]
    inner = state.get("encoder.layer.0.intermediate.dense.bias")
    if inner is None or not attentions or not norms or len(words) != vocabulary:
        raise graph.unreadable(
            f"it has {len(attentions)} attentions and {len(words)} rows for {vocabulary} tokens"
        )
    for node in norms:
        if match := _NORM.fullmatch(node.name):
            name = match[1].replace("/", ".")
            weight, bias = (graph.stored(one) for one in node.input[1:])
            state |= {f"{name}.weight": weight, f"{name}.bias": bias}
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=words.shape[1],
        num_hidden_layers=len(attentions),
        num_attention_heads=_attribute(attentions[0], "num_heads"),
        intermediate_size=len(inner),
        max_position_embeddings=len(positions),
        layer_norm_eps=_attribute(norms[0], "epsilon"),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    if "word.codes" in graph.arrays:
        config.vocabulary_subvector = words.shape[1] // graph.arrays["word.codes"].shape[1]
    backbone = BertModel(config, add_pooling_layer=False)
    expected = {name: tuple(value.shape) for name, value in backbone.state_dict().items()}
    actual = {name: value.shape for name, value in state.items()}
    if expected != actual:
        strange = sorted(name for name, _ in expected.items() ^ actual.items())
        raise graph.unreadable(f"its weights are not BERT's: {', '.join(strange[:3])}")
    backbone.load_state_dict({n: torch.from_numpy(np.array(one)) for n, one in state.items()})
    return backbone


def _head(graph: _Graph) -> nn.Sequential | None:
    """Linear layers, each with the activation that follows it."""
    modules: list[nn.Module] = []
    for node in graph.nodes:
        if node.op_type in _ACTIVATIONS and node.name.startswith("head.activation"):
            modules[-1] = _ACTIVATIONS[node.op_type]()
        output = node.output[0]
        if output.startswith("head.") and output in graph.products:
            weight, bias = (torch.from_numpy(np.array(one)) for one in graph.products[output])
            linear = nn.Linear(weight.shape[1], weight.shape[0])
            linear.load_state_dict({"weight": weight, "bias": bias})
            modules += [linear, nn.Identity()]
    return nn.Sequential(*modules) if modules else None


def _attribute(node: Any, name: str) -> Any:
    return next(
        getattr(one, {1: "f", 2: "i"}[one.type]) for one in node.attribute if one.name == name
    )
