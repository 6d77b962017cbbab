"""The small files that the JavaScript SDK's own tests read, so that they run without Python.

``python -m tests.sdk.javascript_fixtures`` writes ``conformance/encoder`` anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.sdk import load
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.manifest import Space
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.bundle.writing import pack, write_bundle
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer
from tests.sdk.multilingual_model import made_up_texts, train_model
from tests.sdk.tiny_bundle import tiny_files, tiny_manifest, trained_adapter

TARGET = Path(__file__).parents[2] / "conformance" / "encoder"
REFERENCE = Path(__file__).parents[2] / "benchmarks" / "reference" / "bundle"
KEY, OTHER_KEY = b"\x01" * 32, b"\x02" * 32
TEXTS = [
    "",
    " ",
    "how do plants make sugar",
    "Who wrote NINETEEN eighty-four?",
    "Zürich, 1920: café!",
    "İstanbul ΑΣ straße ﬁn",
    "東京の天気 🫠👩‍👩‍👧‍👦",
    "[SEP] a [MASK]b",
    "a\0b\tc\u200bd",
    "the sea " * 40,
]


def main() -> None:
    """Write every file."""
    TARGET.mkdir(parents=True, exist_ok=True)
    expected = tiny() | {"reference": vectors(load(REFERENCE)), "models": models()}
    text = json.dumps(expected, ensure_ascii=True, indent=1)
    (TARGET / "expected.json").write_text(text + "\n", encoding="utf-8")


def tiny() -> dict[str, Any]:
    """A signed bundle with its adapter, the same zipped, and releases good and bad."""
    files = tiny_files(trained_adapter(0))
    manifest = tiny_manifest(files, default_prompt_name="document")
    manifest = write_bundle(TARGET / "tiny", manifest, files, signing_key=KEY)
    pack(TARGET / "tiny", TARGET / "tiny.zip")
    release = pack_adapter(
        trained_adapter(1), manifest=manifest, version="2", parent_version="1", signing_key=KEY
    )
    elsewhere = tiny_manifest(files, space=Space("space-elsewhere", 16))
    other = files | {"encoder.onnx": files["encoder.onnx"] + b"\x08\x08"}
    another = tiny_manifest(other)
    releases = {
        "release": release,
        "unsigned": pack_adapter(trained_adapter(1), manifest=manifest, version="2"),
        "elsewhere": pack_adapter(trained_adapter(1), manifest=elsewhere, version="2"),
        "another": pack_adapter(trained_adapter(1), manifest=another, version="2"),
    }
    for name, data in releases.items():
        (TARGET / f"{name}.safetensors").write_bytes(data)
    encoder = load(TARGET / "tiny", public_key=public_key_of(KEY))
    found = {"texts": TEXTS, "tiny": vectors(encoder)}
    encoder.swap_adapter(release)
    found["swapped"] = vectors(encoder)
    keys = {"key": KEY, "other_key": OTHER_KEY}
    found |= {name: public_key_of(key).hex() for name, key in keys.items()}
    return found | {"key_id": key_id(public_key_of(KEY))}


def vectors(encoder: Encoder) -> dict[str, Any]:
    """Ids and vectors of the texts, and vectors as queries, truncated."""
    return {
        "ids": [encoder.tokenize(text) for text in TEXTS],
        "vectors": [_numbers(vector) for vector in encoder.encode(TEXTS)],
        "queries": [_numbers(vector) for vector in encoder.encode_query(TEXTS[:4], truncate_dim=8)],
    }


def models() -> dict[str, Any]:
    """Small sentencepiece models with ids of a few texts."""
    found = {}
    kinds: dict[str, dict[str, Any]] = {
        "unigram": {"vocab_size": 300, "byte_fallback": False},
        "bpe": {
            "model_type": "bpe",
            "vocab_size": 700,
            "byte_fallback": True,
            "normalization_rule_name": "identity",
        },
    }
    texts = TEXTS + made_up_texts(10, seed=3)
    for name, options in kinds.items():
        data = train_model(**options)
        (TARGET / f"{name}.model").write_bytes(data)
        tokenizer = open_tokenizer("sentencepiece", data, 64, {"layout": "xlm-roberta"})
        found[name] = {"texts": texts, "ids": [tokenizer.encode(text) for text in texts]}
    return found


def _numbers(vector: np.ndarray[Any, np.dtype[np.float32]]) -> list[float]:
    return [round(float(value), 7) for value in vector]


if __name__ == "__main__":
    main()
