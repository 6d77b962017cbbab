"""What a question's common words cost where the texts are in another language.

    python research/studies/foreign_words.py --data FOLDER [--encoder NAME] [--pairs en-de] [--all]

A hybrid search lost .02 to .05 of nDCG@10 to meaning alone from English to German and Chinese, and
from Spanish and Vietnamese to English. Such a question's own common words (``in``, ``was``,
``die``) are rare in the texts and mean something else there, so each counts much. Chosen on XQuAD's
questions that ``benchmarks/every_language.py`` does not ask (654 of 872; the passages are the
same), and on NTREX, whose halves of sentences with typing errors must not suffer
(hybrid_across.py):

- the common words are left out of the query, or count as words that the index lacks;
- they are those of the language that has most of the query's, by the short list that languages are
  told by, or with the longer one that snippets do not mark; one or two are asked for;
- only where the index lacks .4, .5, .6 or any part of the query by weight, and the mean share of
  rows that have them is at most .1, .15, .2, .25 or .35.

Rule: of those with which the hybrid is nowhere more than .01 below the better of its parts, the
largest share with which no language's mistyped queries lose more than .002.

For each pair of question's and passages' language this prints nDCG@10 of meaning, words and both;
the last also without the rule. ``--all`` asks every question, and is for reports.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import pocketquery.sdk.index.search as product
from pocketquery import sdk
from pocketquery_research.multilingual.sets import Asked, asked, objects, read_xquad, table

REPORTED = 218  # questions, evenly spaced
PAIRS = ["en-de", "en-zh", "es-en", "vi-en", "de-en", "en-es", "zh-en", "ru-en", "en-en", "de-de",
         "es-es", "vi-vi", "zh-zh"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--encoder", default="pocketquery-multilingual")
    parser.add_argument("--pairs", nargs="+", default=PAIRS)
    parser.add_argument("--all", action="store_true", help="the reported questions, too")
    options = parser.parse_args()
    encoder = sdk.load(options.encoder)
    spoken = {language for pair in options.pairs for language in pair.split("-")}
    sets = {one: questions(options.data, one, every=options.all) for one in sorted(spoken)}
    vectors: dict[tuple[str, str], Any] = {}
    for pair in options.pairs:
        one, other = pair.split("-")
        if (one, "questions") not in vectors:
            vectors[one, "questions"] = encoder.encode_query(sets[one].questions)
        if (other, "passages") not in vectors:
            vectors[other, "passages"] = encoder.encode_document(sets[other].passages)
        found = over(sets[one], sets[other], vectors[one, "questions"], vectors[other, "passages"])
        print(json.dumps({"pair": pair} | found), flush=True)


def questions(data: Path, language: str, *, every: bool) -> Asked:
    whole = read_xquad(data, language, 1 << 20)
    if every:
        return whole
    reported = set(read_xquad(data, language, REPORTED).ids)
    folder = data / "xquad"
    kept = [row for row in table(folder / f"{language}.queries.tsv.gz") if row[0] not in reported]
    passages = objects(folder / f"{language}.corpus.jsonl.gz")
    return asked(passages, kept, table(folder / "qrels.tsv"), len(kept))


def over(one: Asked, other: Asked, queries: Any, passages: Any) -> dict[str, float]:
    """Mean nDCG@10 of the questions of ``one`` over the passages of ``other``."""
    documents = [
        sdk.Document(*each) for each in zip(other.passage_ids, other.passages, strict=True)
    ]
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as place:
        path = Path(place) / "index"
        dimension = passages.shape[1]
        with sdk.create_index(path, space_id="measured", dimension=dimension) as builder:
            builder.add(documents, passages)
        with sdk.open_index(path) as index:

            def score(mode: Any) -> float:
                found = []
                for name, text, vector in zip(one.ids, one.questions, queries, strict=True):
                    meaning = {} if mode == "lexical" else {"vector": vector}
                    hits = [hit.id for hit in index.search(text, 10, mode=mode, **meaning)]
                    (right,) = one.right[name]
                    found.append(1 / np.log2(hits.index(right) + 2) if right in hits else 0.0)
                return round(float(np.mean(found)), 4)

            scores = {mode: score(mode) for mode in ("dense", "lexical", "hybrid")}
            least, product._LEAST_PRESENT = product._LEAST_PRESENT, 0.0
            scores["without the rule"] = score("hybrid")
            product._LEAST_PRESENT = least
    return scores


if __name__ == "__main__":
    main()
