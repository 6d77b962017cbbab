"""Equal ids: the graph that takes text against the device's own tokenizer, language by language.

    python benchmarks/string_graph.py [--data data] [--bundle BUNDLE] [--most 1000]

The bundle's encoder gets its tokenizer put in front of it, and plain queries of each language go
through both, then every character of Unicode, then strings made to be difficult. What differs is
counted by the class of what the text holds. Reported beside it: the overlap of the ten best of
2,000 questions, the size of the file, and the time of one call over that of tokenizer and encoder.

Exits 1 where fewer than 99.9 % of the English queries, or of the difficult strings without U+0000
(onnxruntime ends a text there), get the tokenizer's ids.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from data_files import objects, table

from pocketquery.export.quantization.ranking_gate import GateData, compare_rankings
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import GateThresholds
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ENCODER_FILE
from pocketquery.sdk.tokenizers.bert_normalizer import REORDERED
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer
from pocketquery.server.corpus import Query, read_queries
from pocketquery.server.modeling.tokenizer_file import TokenizerFile
from pocketquery_demo.corpus import DATA
from pocketquery_mobile.agreement import every_character
from pocketquery_mobile.graph import (
    StringGraph,
    build_string_graph,
    extensions_version,
)

ROOT = Path(__file__).resolve().parents[1]
LEAST, RANKED, TIMED = 0.999, 2000, 300


def main() -> int:
    """Print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    parser.add_argument("--bundle", type=Path, default=ROOT / "benchmarks" / "reference" / "bundle")
    parser.add_argument("--most", type=int, default=1000, help="texts of a set (default: 1000)")
    arguments = parser.parse_args()
    data = Path(arguments.data or os.environ.get("POCKETQUERY_DATA") or ROOT / "data")
    bundle = Bundle.open(arguments.bundle)
    spec = bundle.manifest.tokenizer
    file = TokenizerFile(spec.kind, spec.file, bundle.read(spec.file), spec.options)
    encoder = onnx.load_from_string(bundle.read(ENCODER_FILE))
    model = build_string_graph(encoder, bundle.manifest, file).SerializeToString()
    graph, tokenizer = StringGraph(model), file.open(bundle.manifest.max_length)

    shares: dict[str, float] = {}
    unlike: Counter[str] = Counter()
    english = Counter[str]()
    for name, texts in _sets(data):
        texts = texts[: arguments.most]
        differ = _unlike(graph, tokenizer, texts)
        shares[name] = round(1 - sum(differ.values()) / len(texts), 5)
        unlike += differ
        if name.endswith(" en"):
            english += Counter(texts=len(texts), equal=len(texts) - sum(differ.values()))
        print(f"{name:18} {len(texts):6} texts  {shares[name]:.4%} equal  {dict(differ) or ''}")
    difficult: dict[str, dict[str, Any]] = {}
    for name, strings in (("every character", every_character()), ("diverse strings", _diverse())):
        texts = list(strings)
        differ = _unlike(graph, tokenizer, texts)
        cut = sum("\0" in text for text in texts)
        others = sum(differ.values()) - differ["U+0000"]
        difficult[name] = {"texts": len(texts), "unlike": dict(differ), "with U+0000": cut}
        difficult[name]["equal_without_U+0000"] = round(1 - others / (len(texts) - cut), 5)
        print(f"{name:18} {len(texts):6} texts  unlike: {dict(differ) or 'none'}")

    questions = [query.text for query in read_queries(DATA / "queries.tsv.gz")][:RANKED]
    overlap = _overlap(graph, GraphSession(encoder), tokenizer, questions)
    ratio = _time_ratio(graph, GraphSession(encoder), tokenizer, questions[:TIMED])
    share = english["equal"] / english["texts"] if english else 0.0
    least = min(found["equal_without_U+0000"] for found in difficult.values())
    reached = share >= LEAST and least >= LEAST
    print(f"top-10 overlap {overlap:.4f}, {len(model) / 1e6:.1f} MB, {ratio:.2f} x the time")
    print(
        json.dumps(
            {
                "english": round(share, 5),
                "sets": shares,
                "unlike": dict(unlike),
                "difficult": difficult,
                "top10_overlap": round(overlap, 4),
                "bytes": len(model),
                "time_over_tokenizer_and_encoder": round(ratio, 3),
                "extensions": extensions_version(),
                "limit": LEAST,
                "reached": reached,
            }
        )
    )
    return 0 if reached else 1


def _sets(data: Path) -> Iterator[tuple[str, list[str]]]:
    """Plain queries by source and language; a set that is not there is left out, and named."""
    yield "SQuAD en", [query.text for query in read_queries(DATA / "queries.tsv.gz")]
    sources: list[tuple[str, str, Callable[[Path], list[str]]]] = [
        (
            "NQ-open",
            "nq_open_queries/dev.jsonl.gz",
            lambda p: [row["question"] for row in objects(p)],
        ),
        ("xSID", "xsid/*.tsv", lambda p: [row[2] for row in list(table(p))[1:]]),
        ("XQuAD", "xquad/*.queries.tsv.gz", lambda p: [query.text for query in read_queries(p)]),
        ("Tatoeba", "tatoeba/*-eng.tsv", lambda p: [row[0] for row in table(p)]),
    ]
    for source, pattern, read in sources:
        paths = sorted(data.glob(pattern))
        if not paths:
            print(f"{data / pattern}: not there, left out", file=sys.stderr)
        for path in paths:
            language = path.name.split(".")[0].removesuffix("-eng").replace("dev", "en")
            yield f"{source} {language}", read(path)


def _unlike(graph: StringGraph, tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    """How many texts get other ids, by the class of what is in them."""
    counts: Counter[str] = Counter()
    for text in texts:
        if graph.ids(text) == tokenizer.encode(text):
            continue
        if "\0" in text:
            counts["U+0000"] += 1
        elif any(character in REORDERED for character in text):
            counts["order of marks"] += 1
        else:
            counts["other"] += 1
            print(f"other ids: {text[:80]!a}", file=sys.stderr)
    return counts


def _diverse() -> Iterator[str]:
    sys.path.insert(0, str(ROOT))
    from tests.sdk.diverse_text import diverse_strings

    return diverse_strings(20_000, seed=1)


def _overlap(
    graph: StringGraph, session: GraphSession, tokenizer: Tokenizer, texts: Sequence[str]
) -> float:
    expected = session.encode(map(tokenizer.encode, texts))
    found = np.stack([graph.encode(text, prompt="") for text in texts])
    queries = [Query(str(number), text) for number, text in enumerate(texts)]
    gate = GateData(queries, [query.id for query in queries], expected)
    return compare_rankings(expected, found, gate, GateThresholds(0.0)).overlap


def _time_ratio(
    graph: StringGraph, session: GraphSession, tokenizer: Tokenizer, texts: Sequence[str]
) -> float:
    """The median, over texts, of one call's time over that of tokenizer and encoder."""

    def seconds(call: Callable[[str], Any], text: str) -> float:
        start = time.perf_counter()
        call(text)
        return time.perf_counter() - start

    def apart(text: str) -> Any:
        return session.outputs(tokenizer.encode(text))

    return statistics.median(seconds(graph.encode, t) / seconds(apart, t) for t in texts)


if __name__ == "__main__":
    sys.exit(main())
