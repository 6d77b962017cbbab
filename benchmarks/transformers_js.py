"""A page's first vector: ours beside transformers.js, with the same model in the same browser.

    (cd benchmarks/transformers_js && npm ci --ignore-scripts)
    python benchmarks/transformers_js.py

Both pages load the encoder of the built-in bundle (int8 ONNX; ``--bundle`` takes another),
ours as the bundle, theirs in the layout transformers.js wants (``config.json``,
``tokenizer.json``, ``onnx/model_quantized.onnx``), and make one vector: in WebAssembly, one
thread, from files served on the loopback, compressed alike, with nothing cached. Ours brings its
own runtime, transformers.js comes as its self-contained ``transformers.min.js`` with the
WebAssembly that it asks for. The vectors must be the same (cosine at least .999).

Must reach: the first vector sooner; transferred bytes less than half. Needs node, Chromium and
sdk/js built; @huggingface/transformers (Apache-2.0) is installed for this alone and never shipped.
The last line is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.sdk.bundle.bundle import Bundle

ROOT = Path(__file__).resolve().parents[1]
SIDE = Path(__file__).with_name("transformers_js")
LEAST_COSINE = 0.999
MOST_OF_BYTES = 0.5
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 384,
    "num_attention_heads": 12,
    "num_hidden_layers": 3,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bundle", type=Path, default=ROOT / "sdk" / "default")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--chromium", default=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    options = parser.parse_args()
    found = visit(options.bundle, options.rounds, options.chromium)
    ours, theirs = found["ours"], found["theirs"]
    for name, one in found.items():
        print(f"{name:7} first vector after {one['ms']:7.0f} ms, {one['bytes']:>11,} bytes sent")
        for place, sent in sorted(one["sent"].items(), key=lambda item: -item[1])[:4]:
            print(f"        {sent:>11,}  {place}")
    figures = {
        "cosine": cosine(ours["vector"], theirs["vector"]),
        "ms_of_theirs": ours["ms"] / theirs["ms"],
        "bytes_of_theirs": ours["bytes"] / theirs["bytes"],
    }
    missed = [
        name
        for name, held in (
            ("cosine", figures["cosine"] >= LEAST_COSINE),
            ("ms_of_theirs", figures["ms_of_theirs"] < 1),
            ("bytes_of_theirs", figures["bytes_of_theirs"] < MOST_OF_BYTES),
        )
        if not held
    ]
    print(f"expected cosine >= {LEAST_COSINE}, time < 1, bytes < {MOST_OF_BYTES} of theirs")
    measured = {name: {key: one[key] for key in ("ms", "bytes")} for name, one in found.items()}
    print(json.dumps({**figures, **measured, "missed": missed, "reached": not missed}))
    return 1 if missed else 0


def visit(bundle: Path, rounds: int, chromium: str, pages: Path | None = None) -> dict[str, Any]:
    """What the pages found and how long they took; ``pages``: those of search_page.py, and their
    folder."""
    if not (SIDE / "node_modules").is_dir():
        sys.exit(f"(cd {SIDE} && npm ci --ignore-scripts)")
    with tempfile.TemporaryDirectory() as folder:
        lay_out(bundle, Path(folder) / "student")
        settings = {
            "bundle": str(bundle.resolve()),
            "models": folder,
            "sdk": str(ROOT / "sdk" / "js"),
            "chromium": chromium,
            "text": "how do plants make sugar",
            "rounds": rounds,
            "pages": pages and str(pages.resolve()),
        }
        command = ["node", str(SIDE / "compare.mjs"), json.dumps(settings)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def lay_out(bundle: Path, folder: Path) -> None:
    """The bundle's encoder as transformers.js expects a model."""
    opened = Bundle.open(bundle)
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model_quantized.onnx").write_bytes(opened.read("encoder.onnx"))
    tokenizer = opened.read(opened.manifest.tokenizer.file)
    (folder / "tokenizer.json").write_bytes(tokenizer)
    vocabulary = len(json.loads(tokenizer)["model"]["vocab"])
    files: dict[str, Any] = {
        "config.json": CONFIG | {"vocab_size": vocabulary},
        "tokenizer_config.json": {
            "tokenizer_class": "BertTokenizer",
            "model_max_length": opened.manifest.max_length,
        },
    }
    for name, values in files.items():
        (folder / name).write_text(json.dumps(values), encoding="utf-8")


def cosine(left: list[float], right: list[float]) -> float:
    """Of two vectors."""
    a, b = np.array(left), np.array(right)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


if __name__ == "__main__":
    sys.exit(main())
