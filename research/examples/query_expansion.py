"""Words that a query leaves out, written by GUR's decoder, and the search with and without them.

python research/examples/query_expansion.py DOCUMENTS.jsonl "who built the castle" ["another" ...]

The model in --model (default: my-gur) encodes and writes. Where there is none yet, it is trained
on the documents first, from the encoder named by --init, for so few steps that it only shows the
way; `pocketquery pretrain --objective gur` trains a better encoder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from pocketquery.server.corpus import read_documents
from pocketquery.server.corpus.groups import GroupList
from pocketquery.server.corpus.readers.document_groups import read_document_groups
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.gur import Gur, GurConfig
from pocketquery.server.pretraining.config import PretrainingConfig
from pocketquery.server.pretraining.loop import pretrain
from pocketquery.server.pretraining.mixture import Part
from pocketquery_research.objectives.infilling import BLANK, Infiller


def train(documents: Path, init: str, steps: int, folder: Path) -> None:
    """Infilling and contrast on pairs of each document's sentences, saved to ``folder``."""
    encoder = SentenceEncoder.load(init)
    source = GroupList(list(read_document_groups(documents, join_titles=True)), "documents")
    gur = Gur(encoder, GurConfig(max_length=48))
    config = PretrainingConfig(steps=steps, batch_size=16)
    shipped = pretrain(encoder, [Part(gur, source)], config, show_progress_bar=True)
    shipped.save(folder)
    gur.save_beside(folder, shipped)  # the decoder, which search alone does not need


def main() -> None:
    """Train where there is no model yet; then expand and search."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("documents", type=Path, help="a .jsonl or .jsonl.gz file")
    parser.add_argument("queries", nargs="+")
    parser.add_argument("--model", type=Path, default=Path("my-gur"))
    parser.add_argument("--init", default="demo", help="a folder, a Hub name, or demo")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()

    if not options.model.exists():
        train(options.documents, options.init, options.steps, options.model)
    infiller = Infiller.load(options.model)
    documents = list(read_documents(options.documents))
    vectors = infiller.encoder.encode_document([document.text for document in documents])
    for query in options.queries:
        # Both ends of the query are open: what comes before it, and what after.
        found = infiller.fill(f"{BLANK} {query} {BLANK}", samples=8, temperature=0.7)[:3]
        print(query)
        for one in found:
            print(f"  {' ... '.join(one.fillings)}  ({np.exp(one.log_probability):.2f} a token)")
        # The query counts as much as all its expansions together.
        plain, *expanded = infiller.encoder.encode_query([query, *(one.text for one in found)])
        for name, vector in (("as it is", plain), ("expanded", plain + np.mean(expanded, axis=0))):
            best = documents[int((vectors @ vector).argmax())]
            print(f"  {name}: {best.metadata.get('title', best.id)}: {best.text[:60]}")


if __name__ == "__main__":
    main()
