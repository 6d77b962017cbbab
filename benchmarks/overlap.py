"""How much of its teacher a query encoder keeps, asked without judgements: to choose between two.

    python benchmarks/overlap.py BUNDLE OTHER [--data FOLDER]

Of each of the three forums of quality_sets.py up to 5,000 posts ask, as typed and with 8 % of the
letters mistyped; the documents are the forum's posts, encoded by the teacher. Counted is the share
of the teacher's ten nearest posts, for the post as typed, that are among the encoder's ten; the
post itself is left out. Nobody has to have judged a post, so the intervals are a sixth as wide as
those of nDCG@10 on the same forums: a few duplicates in a thousand questions cannot tell two
students of one shape apart (LOG.md).

Printed are both shares and the second's minus the first's with its 95 % interval, paired by post;
the last line is one JSON object. Nothing must be reached.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence

import numpy as np
import quality
from quality_sets import FORUMS, data_folder, read_set

from pocketquery import sdk
from pocketquery.client.bootstrap import bootstrap_difference
from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk.arrays import Doubles, Floats, Rows
from pocketquery.sdk.encoder import Encoder
from pocketquery.server.corpus import Collection
from pocketquery.server.evaluation import encode_documents
from pocketquery.server.modeling import SentenceEncoder

DEPTH, MOST_ASKED, BLOCK = 10, 5_000, 256
CONDITIONS = ("typed", "mistyped")


def main() -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("bundles", nargs=2, metavar="BUNDLE", help="a path, or an installed one")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    options = parser.parse_args()
    data = data_folder(options.data)
    teacher = SentenceEncoder.load("demo")
    encoders = [sdk.load(bundle) for bundle in options.bundles]
    pairs: dict[str, list[tuple[Doubles, Doubles]]] = {name: [] for name in CONDITIONS}
    for forum in FORUMS:
        for condition, pair in overlaps(read_set(data, forum), teacher, encoders).items():
            pairs[condition].append((pair[1], pair[0]))
            shares = " ".join(f"{share.mean():.4f}" for share in pair)
            print(f"{forum:14} {condition:9} {shares}  of {len(pair[0])}", flush=True)
    found = {}
    for condition, both in pairs.items():
        found[condition] = interval = bootstrap_difference(both)
        print(f"{condition:9} {options.bundles[1]} - {options.bundles[0]}: {interval}")
    print(json.dumps({name: [i.estimate, i.low, i.high] for name, i in found.items()}))
    return 0


def overlaps(
    collection: Collection, teacher: SentenceEncoder, encoders: Sequence[Encoder]
) -> dict[str, list[Doubles]]:
    """By condition, for each encoder: float64 (posts that ask,)."""
    documents = collection.documents
    vectors = encode_documents(teacher, documents, cache=quality.CACHE)
    count = min(MOST_ASKED, len(documents))
    asking = np.array(random.Random(1).sample(range(len(documents)), count))
    typed = [str(documents[i].metadata.get("title", documents[i].text)) for i in asking]
    mistyped = [
        mistype(text, quality.TYPOS, random.Random(f"1 {number}"))
        for number, text in enumerate(typed)
    ]
    wanted = nearest(np.asarray(teacher.encode_query(typed)), vectors, asking)
    return {
        condition: [
            shared(wanted, nearest(encoder.encode_query(texts), vectors, asking))
            for encoder in encoders
        ]
        for condition, texts in zip(CONDITIONS, (typed, mistyped), strict=True)
    }


def nearest(queries: Floats, documents: Floats, own: Rows) -> Rows:
    """The ten nearest documents of each query but its ``own``, in no order; (queries, 10)."""
    found = []
    for start in range(0, len(queries), BLOCK):
        scores = queries[start : start + BLOCK] @ documents.T
        scores[np.arange(len(scores)), own[start : start + BLOCK]] = -np.inf
        found.append(np.argpartition(-scores, DEPTH, axis=1)[:, :DEPTH])
    return np.concatenate(found)


def shared(wanted: Rows, found: Rows) -> Doubles:
    """The share of each row of ``wanted`` that is in that of ``found``; float64 (rows,)."""
    return np.array([np.isin(one, other).mean() for one, other in zip(wanted, found, strict=True)])


if __name__ == "__main__":
    sys.exit(main())
