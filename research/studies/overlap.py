"""How much of its teacher a query encoder keeps, asked without judgements: to choose between two.

    python research/studies/overlap.py BUNDLE OTHER [--data FOLDER] [--papers CLONE]

Of each of the three forums of quality_sets.py up to 5,000 posts ask, as typed and with 8 % of the
letters mistyped; the documents are the forum's posts, encoded by the teacher. Counted is the share
of the teacher's ten nearest posts, for the post as typed, that are among the encoder's ten; the
post itself is left out. Nobody has to have judged a post, so the intervals are a sixth as wide as
those of nDCG@10 on the same forums: a few duplicates in a thousand questions cannot tell two
students of one shape apart (research/LOG.md).

``--papers`` asks the same of biomedical papers, from a clone of https://github.com/PLOS/allofplos
(its starter corpus, 127 articles under CC BY, which no encoder of ours learnt from): sentences of
their abstracts ask, up to 5,000 paragraphs of all of them are the documents.

Printed are both shares and the second's minus the first's with its 95 % interval, paired by post;
the last line is one JSON object. Nothing must be reached.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import quality
from quality_sets import FORUMS, data_folder, read_set

from pocketquery import sdk
from pocketquery.client.bootstrap import bootstrap_difference
from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk.arrays import Doubles, Floats, Rows
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus import split_sentences
from pocketquery.server.evaluation import encode_documents
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.presets.clones import git

DEPTH, MOST_ASKED, BLOCK = 10, 5_000, 256
CONDITIONS = ("typed", "mistyped")
SHORTEST = 200  # characters of a paragraph that is a document


def main() -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("bundles", nargs=2, metavar="BUNDLE", help="a path, or an installed one")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    parser.add_argument("--papers", type=Path, help="clone of PLOS/allofplos: papers, too")
    options = parser.parse_args()
    data = data_folder(options.data)
    teacher = SentenceEncoder.load("demo")
    encoders = [sdk.load(bundle) for bundle in options.bundles]
    groups = {"forums": {forum: _forum(read_set(data, forum).documents) for forum in FORUMS}}
    if options.papers:
        groups["papers"] = {"papers": _papers(options.papers)}
    found = {}
    for group, collections in groups.items():
        pairs: dict[str, list[tuple[Doubles, Doubles]]] = {name: [] for name in CONDITIONS}
        for name, (documents, typed, own) in collections.items():
            for condition, pair in overlaps(documents, typed, own, teacher, encoders).items():
                pairs[condition].append((pair[1], pair[0]))
                shares = " ".join(f"{share.mean():.4f}" for share in pair)
                print(f"{name:14} {condition:9} {shares}  of {len(typed)}", flush=True)
        for condition, both in pairs.items():
            found[f"{group}, {condition}"] = interval = bootstrap_difference(both)
            print(f"{group} {condition:9} {options.bundles[1]} - {options.bundles[0]}: {interval}")
    print(json.dumps({name: [i.estimate, i.low, i.high] for name, i in found.items()}))
    return 0


def overlaps(
    documents: Sequence[Document],
    typed: Sequence[str],
    own: Rows | None,
    teacher: SentenceEncoder,
    encoders: Sequence[Encoder],
) -> dict[str, list[Doubles]]:
    """By condition, for each encoder: float64 (texts that ask,)."""
    vectors = encode_documents(teacher, documents, cache=quality.CACHE)
    mistyped = [
        mistype(text, quality.TYPOS, random.Random(f"1 {number}"))
        for number, text in enumerate(typed)
    ]
    wanted = nearest(np.asarray(teacher.encode_query(list(typed))), vectors, own)
    return {
        condition: [
            shared(wanted, nearest(encoder.encode_query(list(texts)), vectors, own))
            for encoder in encoders
        ]
        for condition, texts in zip(CONDITIONS, (typed, mistyped), strict=True)
    }


def _forum(documents: Sequence[Document]) -> tuple[Sequence[Document], list[str], Rows | None]:
    """Its posts, those that ask by their titles, and which posts these are."""
    count = min(MOST_ASKED, len(documents))
    asking = np.array(random.Random(1).sample(range(len(documents)), count))
    typed = [str(documents[i].metadata.get("title", documents[i].text)) for i in asking]
    return documents, typed, asking


def _papers(clone: Path) -> tuple[Sequence[Document], list[str], Rows | None]:
    """Paragraphs, and the abstracts' sentences, which are of no paragraph."""
    listed = git(clone, "ls-tree", "-r", "--name-only", "HEAD").decode().splitlines()
    corpus = [name for name in listed if "starter_corpus/" in name and name.endswith(".xml")]
    paragraphs, asking = list[str](), list[str]()
    for name in corpus:
        article = ElementTree.fromstring(git(clone, "show", f"HEAD:{name}"))
        paragraphs += (p for p in _texts(article, "body") if len(p) >= SHORTEST)
        asking += (sentence for p in _texts(article, "abstract") for sentence in split_sentences(p))
    rng = random.Random(1)
    drawn = rng.sample(paragraphs, min(MOST_ASKED, len(paragraphs)))
    documents = [Document(str(number), text) for number, text in enumerate(drawn)]
    return documents, rng.sample(asking, min(MOST_ASKED, len(asking))), None


def _texts(article: ElementTree.Element, part: str) -> Iterator[str]:
    """The paragraphs below ``part``, of single spaces."""
    for element in article.iter(part):
        for paragraph in element.iter("p"):
            yield " ".join("".join(paragraph.itertext()).split())


def nearest(queries: Floats, documents: Floats, own: Rows | None) -> Rows:
    """The ten nearest documents of each query but its ``own``, in no order; (queries, 10)."""
    found = []
    for start in range(0, len(queries), BLOCK):
        scores = queries[start : start + BLOCK] @ documents.T
        if own is not None:
            scores[np.arange(len(scores)), own[start : start + BLOCK]] = -np.inf
        found.append(np.argpartition(-scores, DEPTH, axis=1)[:, :DEPTH])
    return np.concatenate(found)


def shared(wanted: Rows, found: Rows) -> Doubles:
    """The share of each row of ``wanted`` that is in that of ``found``; float64 (rows,)."""
    return np.array([np.isin(one, other).mean() for one, other in zip(wanted, found, strict=True)])


if __name__ == "__main__":
    sys.exit(main())
