"""What people type, asked of documentations and of small cases: what comes first?"""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery import sdk

__all__ = [
    "Searched",
    "descriptions",
    "identifiers",
    "independence",
    "unrelated",
    "versions",
    "words",
]


Searched = Callable[[str], Sequence[str]]
"""Paths of a folder's passages, best first."""
Figures = dict[str, Any]

HERE = Path(__file__).parent
KINDS = {
    "snake_case": r"\b(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b",
    "version": r"\b\d+\.\d+\.\d+\b",
    "dotted": r"\b[A-Za-z_]+\.[A-Za-z_]+(?:\.[A-Za-z_]+)*\b",
    "hyphenated": r"\b[A-Za-z]+-[A-Za-z]+(?:-[A-Za-z]+)*\b",
    "flag": r"(?<!\S)--[a-z][a-z-]+\b",
}
MOST_OF_A_KIND = 150  # of one documentation
MOST_PASSAGES = 3  # an identifier in more is no address
DEPTH = 50  # passages in which the own file may be found


def words(encoder: sdk.Encoder, misses: list[str]) -> Figures:
    """Of the cases of words.json, how many have the expected document alone in first place."""
    cases = json.loads((HERE / "words.json").read_text("utf-8"))
    passed = 0
    for case in cases:
        names, texts = list(case["documents"]), list(case["documents"].values())
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "index"
            with sdk.create_index(
                path, space_id=encoder.space_id, dimension=encoder.dimension
            ) as builder:
                documents = [sdk.Document(*pair) for pair in zip(names, texts, strict=True)]
                builder.add(documents, encoder.encode_document(texts))
            with sdk.open_index(path, encoder=encoder) as index:
                hits = index.search(case["query"], k=5, mode=case["mode"])
        alone = len(hits) < 2 or hits[0].score > hits[1].score if hits else False
        if alone and hits[0].id == case["expected"]:
            passed += 1
        else:
            order = [(hit.id, round(hit.score, 3)) for hit in hits]
            misses.append(f"words: {case['kind']} {case['query']!r} in {texts}: {order}")
    return {"passed": passed, "cases": len(cases)}


def identifiers(indexes: Mapping[str, sdk.Index], misses: list[str]) -> Figures:
    """Identifiers asked alone: the share for which a passage with it comes first, by kind."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, index in indexes.items():
        shown = {document.id: _shown(document) for document in index.documents()}
        for kind, pattern in KINDS.items():
            for term in _rare(pattern, shown):
                counts[kind]["asked"] += 1
                whole = re.compile(rf"(?<!\w){re.escape(term)}(?!\w)")
                for mode in ("lexical", "hybrid"):
                    ids = [hit.id for hit in index.search(term, k=5, mode=mode)]
                    is_first = bool(ids) and whole.search(shown[ids[0]]) is not None
                    counts[kind][mode] += is_first
                    if not is_first:
                        holders = [i for i, text in shown.items() if whole.search(text)]
                        misses.append(f"{name}: {kind} {term!r} {mode}: {ids[:3]}, in {holders}")
    return {
        kind: {
            "asked": row["asked"],
            "words_first": row["lexical"] / row["asked"],
            "hybrid_first": row["hybrid"] / row["asked"],
            "hybrid_below_words": (row["lexical"] - row["hybrid"]) / row["asked"],
        }
        for kind, row in counts.items()
    }


def _shown(document: sdk.Document) -> str:
    metadata = document.metadata
    headings = metadata.get("headings") or ()
    return " ".join([str(metadata.get("title", "")), *map(str, headings), document.text])


def _rare(pattern: str, shown: Mapping[str, str]) -> list[str]:
    places: dict[str, set[str]] = defaultdict(set)
    for name, text in shown.items():
        for term in re.findall(pattern, text):
            places[term].add(name)
    terms = sorted(term for term, names in places.items() if len(names) <= MOST_PASSAGES)
    return terms[:: max(1, len(terms) // MOST_OF_A_KIND)]


def versions(folder: Path) -> dict[str, set[str]]:
    """A version number -> the paths of its release notes."""
    notes: dict[str, set[str]] = defaultdict(set)
    for path in sorted((folder / "Release notes").rglob("v*.*.*.md")):
        notes[path.stem.removeprefix("v")].add(path.relative_to(folder).as_posix())
    return notes


def descriptions(
    searched: Searched, wanted: Iterable[tuple[str, set[str]]], name: str, misses: list[str]
) -> Figures:
    """For queries that each want one of some files: MRR@10 by files, first, in three passages."""
    ranks, firsts = [], []
    for query, paths in wanted:
        passages = list(searched(query))
        files = list(dict.fromkeys(passages))[:10]
        ranks.append(next((1 / at for at, path in enumerate(files, 1) if path in paths), 0.0))
        firsts.append(bool(paths & set(passages[:3])))
        if ranks[-1] < 1 and not (firsts[-1] and name == "versions"):
            misses.append(f"{name}: {query!r} wants {sorted(paths)}: {files[:4]}")
    return {
        "asked": len(ranks),
        "mrr": float(np.mean(ranks)),
        "first": float(np.mean([rank == 1 for rank in ranks])),
        "in_three": float(np.mean(firsts)),
    }


def unrelated(index: sdk.Index, related: Sequence[str]) -> Figures:
    """The best score of queries that the folder answers, and of ones that nothing there does."""
    others = (HERE / "unrelated.txt").read_text("utf-8").splitlines()

    def best(queries: Sequence[str]) -> list[float]:
        found = [index.search(query, k=1) for query in queries]
        return [float(hits[0].score) if hits else 0.0 for hits in found]

    answered, unanswered = best(related), best(others)
    bound = float(np.quantile(unanswered, 0.95))
    marks = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
    return {
        "bound": bound,
        "answered_above": float(np.mean([score > bound for score in answered])),
        "quantiles": list(marks),
        "answered": [round(float(mark), 3) for mark in np.quantile(answered, marks)],
        "unanswered": [round(float(mark), 3) for mark in np.quantile(unanswered, marks)],
        "banana": best(others[:1])[0],
    }


def independence(index: sdk.Index, queries: Sequence[str], misses: list[str]) -> Figures:
    """How many lists of ten change with k, and scores with the other candidates."""
    lists = scores = 0
    for query in queries:
        ten = [(hit.id, round(hit.score, 5)) for hit in index.search(query, k=10)]
        for k in (20, 100, 150, 400):
            more = [(hit.id, round(hit.score, 5)) for hit in index.search(query, k=k)][:10]
            lists += more != ten
            if more != ten:
                misses.append(f"k: {query!r} with k={k}: {more[:3]}, with 10: {ten[:3]}")
        hit = index.search(query, k=10)[-1]
        alone = index.search(query, k=1000, filter={"path": hit.metadata["path"]})
        same = {other.id: other.score for other in alone}.get(hit.id, -1.0)
        scores += abs(same - hit.score) > 1e-5
        if abs(same - hit.score) > 1e-5:
            misses.append(f"score: {query!r} {hit.id}: {hit.score}, filtered by path: {same}")
    return {"queries": len(queries), "other_lists": lists, "other_scores": scores}
