"""How much words should weigh where an index lacks most of a query's.

    python research/studies/hybrid_across.py --data FOLDER [--languages eng deu ...]

The hybrid ranking was below the better of its parts where a question in one language is asked of
texts in another: by .044 from English to German, .024 from English to Chinese, .020 from Vietnamese
and .017 from Spanish to English (``benchmarks/every_language.py``). What is chosen here is chosen
on NTREX alone, which no report has: 123 news articles, the same sentences in each language. A
passage is four sentences in a row, 351 in each language.

- *across*: the first half of a passage's second sentence, asked in one language, the passages in
  another; every ordered pair. One passage is right.
- *same*: the sentence behind the passage, which no passage has, in the same language.
- *mistyped*: the first half of the second sentence, in the same language, with a letter changed,
  lost, doubled or moved in every second word of five letters or more.
- *pool*: each passage in one language of all in turn, so that an index has all of them; asked in
  each language.

Candidates, declared before the first run. With r = p / U, the share of U whose terms the index has,
z = (cos - m) / (1 - m) and b = bm25 / U:

    fused = .25 (1 + L (1 - r)) z + (1 - c (1 - r)) b     L of 2, 3, 4, 6; c of 0, .5, .75, 1

Today's is L = 2, c = 0. All are the same where the index has all of the words, so that names and
English questions over English texts hardly change. For the pool, each with the candidate chosen:

    whole   as today: idf, U and p of the whole index
    p       p and so L, c by language: of the terms that some document of the row's language has
    idf     idf, U and p by language: of the number of its rows and of those that have the term

Rule. A candidate is admissible if the mean of *same* is at most .002 below today's, no language is
more than .005 below, and the same holds for *mistyped*. Of the admissible ones the best is that
whose largest loss to the better of its parts, over *across*, is least; among those within .002 of
it the one with the highest mean over *across*. For the pool the arm with the highest mean is taken
if it gains .02 or more over ``whole`` and its mean over questions whose answer is in their own
language loses at most .01; else it stays as it is.

Amended after the first run on NTREX, before any reported set: ``shrunk``, which is ``p`` moved from
the whole index's by n / (n + 16) for a language of n rows, as means are, since few rows lack words
by chance and a language may be detected wrongly. It is taken in the place of ``p`` if its mean
over an even pool and one of nine tenths in one language is at most .03 below that of ``p``.

Afterwards, once: XQuAD and the other sets of ``benchmarks/every_language.py``, the five English
sets and ``benchmarks/finding.py``. Nothing is chosen by these.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery import sdk
from pocketquery.sdk.index.bm25 import bm25, postings_of
from pocketquery.sdk.index.search import expanded
from pocketquery.sdk.index.vectors import QueryVector

Vectors = NDArray[np.float32]
Scores = NDArray[np.float64]

CACHE = Path(__file__).resolve().parents[2] / "runs" / "hybrid_across"
LANGUAGES = ("eng", "deu", "spa", "vie", "zho-CN", "fra", "rus")
CODES = {"eng": "en", "deu": "de", "spa": "es", "vie": "vi", "zho-CN": "zh", "fra": "fr",
         "rus": "ru"}  # fmt: skip
SENTENCES = 1997
PASSAGE = 4  # sentences; the next one is the query of *same*
CANDIDATES = list(product((2.0, 3.0, 4.0, 6.0), (0.0, 0.5, 0.75, 1.0)))
TODAY = (2.0, 0.0)
KINDS = ("across", "same", "mistyped")


@dataclass(frozen=True)
class Language:
    """Passages, the halves, next and mistyped sentences of a language, with their vectors."""

    texts: dict[str, list[str]]
    vectors: dict[str, Vectors]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", default="data")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, choices=LANGUAGES)
    parser.add_argument("--uneven", action="store_true", help="nine tenths in the first language")
    parser.add_argument("--pool", type=float, nargs=2, metavar=("L", "c"), help="its arms by these")
    options = parser.parse_args()
    uneven = options.uneven
    encoder = sdk.load("pocketquery-multilingual")
    read = {one: language(Path(options.data), one, encoder) for one in options.languages}
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as place:
        if options.pool:
            print(
                json.dumps(
                    pool(read, Path(place), options.pool[0], options.pool[1], uneven), indent=1
                )
            )
            return 0
        rows = [one for name in read for one in over(name, read, Path(place))]
    report(rows)
    return 0


def language(data: Path, name: str, encoder: sdk.Encoder) -> Language:
    with gzip.open(data / "ntrex" / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")[:SENTENCES]
    articles = (data / "ntrex" / "document_ids.txt").read_text("utf-8").split("\n")[:SENTENCES]
    starts: list[int] = []
    start = 0
    for place in range(1, SENTENCES + 1):
        if place == SENTENCES or articles[place] != articles[start]:
            starts += range(start, place - PASSAGE, PASSAGE + 1)
            start = place
    halves = [half(lines[at + 1], name) for at in starts]
    texts = {
        "passages": [" ".join(lines[at : at + PASSAGE]) for at in starts],
        "across": halves,
        "same": [lines[at + PASSAGE] for at in starts],
        "mistyped": [mistyped(text) for text in halves],
    }
    encode = {"passages": encoder.encode_document}
    made_by = encoder.manifest.files["encoder.onnx"].sha256
    return Language(
        texts,
        {
            kind: kept(made_by + kind[:1], some, encode.get(kind, encoder.encode_query))
            for kind, some in texts.items()
        },
    )


def half(sentence: str, name: str) -> str:
    if name == "zho-CN":
        return sentence[: max(8, len(sentence) // 2)]
    words = sentence.split()
    return " ".join(words[: max(4, len(words) // 2)])


def mistyped(text: str) -> str:
    draw, words, changed = random.Random(text), text.split(), False
    for place, word in enumerate(words):
        if len(word) < 5 or changed:
            changed = False
            continue
        at, changed = draw.randrange(1, len(word) - 1), True
        words[place] = draw.choice(
            [
                word[:at] + "e" + word[at + 1 :],
                word[:at] + word[at + 1 :],
                word[:at] + word[at] + word[at:],
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            ]
        )
    return " ".join(words)


def kept(made_by: str, texts: list[str], encode: Any) -> Vectors:
    digest = hashlib.sha256("\0".join([made_by, *texts]).encode()).hexdigest()
    path = CACHE / f"{digest[:32]}.npy"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(path, encode(texts))
    vectors: Vectors = np.load(path)
    return vectors


@dataclass(frozen=True)
class Asked:
    """One query over one index: z and b of every row, r, and which row is right."""

    kind: str
    pair: str
    z: Scores
    b: Scores
    r: float
    right: int


def over(name: str, read: dict[str, Language], place: Path) -> Iterator[Asked]:
    """All queries over the passages of one language."""
    documents = read[name].texts["passages"]
    vectors = read[name].vectors["passages"]
    path = place / name
    with sdk.create_index(path, space_id="measured", dimension=vectors.shape[1]) as builder:
        builder.add([sdk.Document(str(n), text) for n, text in enumerate(documents)], vectors)
    with sdk.open_index(path) as index, index.reading() as (connection, snapshot):
        rows = np.arange(len(documents))
        for other, some in read.items():
            for kind in ("across",) if other != name else ("same", "mistyped"):
                for right, text in enumerate(some.texts[kind]):
                    meant = QueryVector(some.vectors[kind][right])
                    mean = float(meant.cosine(snapshot.mean))
                    asked = snapshot.analyzer.query(text)
                    asked = type(asked)(**vars(asked) | {"phrases": ()})
                    weights, instead = expanded(connection, snapshot, asked)
                    lengths = snapshot.lengths(connection)
                    lexical = bm25(connection, weights, lengths, asked, instead)
                    most = lexical.most or 1.0
                    z = (snapshot.vectors.cosines(meant, rows) - mean) / max(1 - mean, 0.05)
                    b = lexical.scores.astype(np.float64) / most
                    yield Asked(kind, f"{other} {name}", z, b, float(lexical.present) / most, right)


def ndcg(scores: Scores, right: int) -> float:
    better = np.count_nonzero(scores > scores[right])
    rank = better + np.count_nonzero(scores[:right] == scores[right])
    return float(1 / np.log2(rank + 2)) if rank < 10 else 0.0


def fused(one: Asked, much: float, less: float) -> Scores:
    absent = 1 - one.r
    scores: Scores = 0.25 * (1 + much * absent) * one.z + (1 - less * absent) * one.b
    return scores


def report(asked: Iterable[Asked]) -> None:
    found: dict[tuple[str, str], list[list[float]]] = {}
    for one in asked:
        row = [ndcg(one.b, one.right) * bool(one.b[one.right] > 0), ndcg(one.z, one.right)]
        row += [ndcg(fused(one, *candidate), one.right) for candidate in CANDIDATES]
        found.setdefault((one.kind, one.pair), []).append([*row, one.r])
    means = {key: np.mean(rows, axis=0) for key, rows in found.items()}
    for (kind, pair), row in means.items():
        words, meaning = row[:2]
        hybrid = dict(zip(CANDIDATES, row[2:-1], strict=True))
        shown = " ".join(f"{hybrid[one] - max(words, meaning):+.3f}" for one in CANDIDATES)
        print(f"{kind:8} {pair:14} r {row[-1]:.2f} w {words:.3f} m {meaning:.3f}  {shown}")
    table: dict[str, dict[str, float]] = {}
    for place, candidate in enumerate(CANDIDATES, start=2):
        line: dict[str, float] = {}
        for kind in KINDS:
            rows = [row for key, row in means.items() if key[0] == kind]
            line[kind] = float(np.mean([row[place] for row in rows]))
            line[f"{kind}_loss"] = float(max(max(row[:2]) - row[place] for row in rows))
            today = CANDIDATES.index(TODAY) + 2
            line[f"{kind}_below"] = float(max(row[today] - row[place] for row in rows))
        table[f"{candidate[0]:g} {candidate[1]:g}"] = line
    for name, line in table.items():
        print(name, " ".join(f"{key} {value:.4f}" for key, value in line.items()))
    print(json.dumps(table))


def pool(
    read: dict[str, Language], place: Path, much: float, less: float, uneven: bool
) -> dict[str, dict[str, float]]:
    """Each arm's nDCG over all questions, and over those answered in their own language."""
    names = list(read)
    count = len(read[names[0]].texts["passages"])
    spoken = [names[row % len(names)] for row in range(count)]
    if uneven:
        spoken = [one if row % 10 == 0 else names[0] for row, one in enumerate(spoken)]
    documents = [
        sdk.Document(str(row), read[one].texts["passages"][row], {"language": CODES[one]})
        for row, one in enumerate(spoken)
    ]
    vectors = np.stack([read[one].vectors["passages"][row] for row, one in enumerate(spoken)])
    with sdk.create_index(place / "pool", space_id="measured", dimension=384) as builder:
        builder.add(documents, vectors)
    found: dict[str, list[tuple[bool, float]]] = {}
    with sdk.open_index(place / "pool") as index, index.reading() as (connection, snapshot):
        first = snapshot.languages(connection, QueryVector(vectors[0]))
        assert first is not None
        places, sizes = first.of_rows, first.counts[:, 0]
        lengths = snapshot.lengths(connection)
        rows = np.arange(count)
        for other, right in product(names, range(count)):
            text, vector = read[other].texts["across"][right], read[other].vectors["across"][right]
            meant = QueryVector(vector)
            mean = float(meant.cosine(snapshot.mean))
            cosines = snapshot.vectors.cosines(meant, rows)
            asked = snapshot.analyzer.query(text)
            asked = type(asked)(**vars(asked) | {"phrases": ()})
            weights, instead = expanded(connection, snapshot, asked)
            seen = snapshot.languages(connection, meant)
            assert seen is not None
            by_cosine = seen.apart

            def arm(
                scores: Scores, most: Any, present: Any, some: Any = (cosines, mean, by_cosine)
            ) -> Scores:
                cosines, mean, by_cosine = some
                most = np.where(np.asarray(most) > 0, most, 1.0)
                absent = 1 - present / most
                meaning = 0.25 * (1 + much * absent) / max(1 - mean, 0.05)
                word = (1 - less * absent) / most
                both = apart(scores, places, sizes)
                if np.ndim(meaning):
                    meaning, word = meaning[places], word[places]
                fused: Scores = (cosines - mean - by_cosine[places]) * meaning
                fused += (scores - both[places]) * word
                return fused

            whole = bm25(connection, weights, lengths, asked, instead)
            by_words = whole.scores.astype(float)
            arms = {
                "meaning": cosines - by_cosine[places],
                "whole": arm(by_words, whole.most, whole.present),
            }
            scores, most, present, most_p, present_p = by_language(
                connection, weights, lengths, asked, instead, places, sizes
            )
            arms["p"] = arm(by_words, most_p, present_p)
            few = np.append(sizes / (sizes + 16), 0.0)
            shrunk = whole.present + few * (present_p - whole.present)
            arms["shrunk"] = arm(by_words, whole.most, shrunk)
            arms["idf"] = arm(scores, most, present)
            for name, each in arms.items():
                own = spoken[right] == other
                found.setdefault(name, []).append((own, ndcg(each, right)))
    return {
        name: {
            "all": float(np.mean([score for _, score in some])),
            "own": float(np.mean([score for own, score in some if own])),
        }
        for name, some in found.items()
    }


def apart(scores: Scores, places: NDArray[np.intp], sizes: Scores) -> Scores:
    """As ``apart_of``, of BM25."""
    sums = np.bincount(places, scores, len(sizes) + 1)[:-1]
    away = sums / np.maximum(sizes, 1) - sums.sum() / max(sizes.sum(), 1)
    return np.append(away * sizes / (sizes + 16), 0.0)


def by_language(
    connection: Any,
    terms: Any,
    lengths: Vectors,
    asked: Any,
    instead: Any,
    places: NDArray[np.intp],
    sizes: Scores,
) -> tuple[Scores, Scores, Scores, Scores, Scores]:
    """BM25 with idf by language, U and p of it; and U and p by language of the whole's idf."""
    count = len(lengths)
    sizes = np.append(sizes, count - sizes.sum())
    norms = 1.2 * (0.25 + 0.75 / lengths.mean() * lengths)
    scores = np.zeros(count)
    totals = [np.zeros(len(sizes)) for _ in range(4)]
    replaced: dict[str, list[Scores]] = {
        word: [np.zeros(len(sizes)) for _ in range(2)] for word in instead.values()
    }
    for term, weight in terms.items():
        rows, counts = postings_of(connection, term, count)
        having = np.bincount(places[rows], minlength=len(sizes)).astype(float)
        idf = weight * 2.2 * np.log1p((sizes - having + 0.5) / (having + 0.5))
        flat = weight * 2.2 * float(np.log1p((count - len(rows) + 0.5) / (len(rows) + 0.5)))
        scores[rows] += idf[places[rows]] * counts / (counts + norms[rows])
        if word := instead.get(term):
            for total, value in zip(replaced[word], (idf, flat), strict=True):
                np.maximum(total, np.where(having > 0, value, 0.0), out=total)
        elif (
            term in asked.terms and term not in replaced and (len(rows) or term not in asked.beside)
        ):
            totals[0] += idf
            totals[1] += np.where(having > 0, idf, 0.0)
            totals[2] += flat
            totals[3] += np.where(having > 0, flat, 0.0)
    for own, whole in replaced.values():
        totals[0] += own
        totals[1] += own
        totals[2] += whole
        totals[3] += whole
    return (scores, *totals)  # type: ignore[return-value]


if __name__ == "__main__":
    sys.exit(main())
