"""A document encoder of our own, from raw text alone: how near does it come to one of others?

    python research/studies/document_encoder.py [--start english] [--data FOLDER] [--device cpu]

It begins with a start of the claims' studies, which has learnt masked words and passed its gate;
learns the inverse cloze task on the pages of Wikipedia; and is fine-tuned as CPDAE's paper does it,
on questions with their passage and seven hard negatives found by BM25: SQuAD's, but for the
articles that are held out, and SciFact's training claims. Beside it stand all-MiniLM-L6-v2, which
has read a billion pairs; BM25; the same without the cloze task; and a twin that is fine-tuned alike
from randomly initialised weights. Tests: nDCG@10 on SQuAD's held-out articles and SciFact's test
claims, of whose kind it has seen questions, and on CACM, Cranfield and MEDLINE, of whose kind it
has not. Intervals are paired bootstraps over queries, of one seed.

What is trained is kept in ``--output``; killed and started again, the study goes on. The figures
are stored in research/results/document_encoder.json; none has to be reached. The last line is one
JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "claims"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from gate import checked_leg
from quality_sets import SETS, data_folder, read_set
from starts import Start, start_names
from study_results import store
from texts.data_sets import pages

from pocketquery.client.bootstrap import bootstrap_difference
from pocketquery.sdk.files import write_atomic
from pocketquery.server.corpus import Collection, CollectionFiles, find_files, read_collection
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.corpus.mining.hard_negatives import (
    NegativesConfig,
    Questions,
    mine_triples,
)
from pocketquery.server.corpus.mining.rankers import Bm25Ranker
from pocketquery.server.evaluation import evaluate
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import to_device
from pocketquery.server.objectives import build_objective
from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain
from pocketquery_demo.corpus import is_held_out

CLOZE = {
    "similarity": "cosine",
    "temperature": 0.05,
    "symmetric": True,
    "query_length": 48,
    "max_length": 128,
}
PRETRAINING = PretrainingConfig(
    steps=2000,
    batch_size=64,
    learning_rate=3e-4,
    bfloat16=True,
    checkpoint_every=100,
    diagnose_every=0,
    seed=1,
)
TUNING = {"negatives": 7, "query_length": 32, "max_length": 96}
FINE_TUNING = PretrainingConfig(
    steps=800,
    batch_size=16,
    learning_rate=1e-4,
    bfloat16=True,
    checkpoint_every=100,
    diagnose_every=0,
    seed=1,
)
ARMS = ("random", "start", "start tuned", "cloze", "cloze tuned", "random tuned")
OTHER = "all-MiniLM-L6-v2"
OURS = "cloze tuned"


def main() -> int:
    options = parse_arguments()
    data = data_folder(options.data)
    start = Start(options.start)
    leg = checked_leg(start)
    made = Made(start, leg, data, options)
    collections = {name: read_set(data, name) for name in SETS}
    scores: dict[str, dict[str, list[float]]] = {}
    for arm in (OTHER, *ARMS):
        kept = options.output / f"{arm.replace(' ', '-')}.scores.json"
        if not kept.is_file():
            encoder = SentenceEncoder.load("demo") if arm == OTHER else made.encoder(arm)
            to_device(encoder, options.device)
            write_atomic(kept, json.dumps(scored(encoder, collections)))
        found = json.loads(kept.read_text("utf-8"))
        scores |= {arm: found["teacher"], f"{arm} + bm25": found["hybrid"], "bm25": found["bm25"]}
        print(arm, {name: round(mean(values), 4) for name, values in found["teacher"].items()})
    figures = {
        "start": f"{options.start}, leg {leg}",
        "pretraining": asdict(made.pretraining) | CLOZE,
        "fine_tuning": asdict(FINE_TUNING) | TUNING,
        "ndcg@10": {
            arm: {name: round(mean(values), 4) for name, values in found.items()}
            for arm, found in scores.items()
        },
        "differences": {
            f"{one} - {other}": compared(scores[one], scores[other])
            for one, other in (
                (OURS, "random tuned"),
                (OURS, "start tuned"),
                (OURS, "bm25"),
                (OURS, OTHER),
                (f"{OURS} + bm25", "bm25"),
                (f"{OTHER} + bm25", "bm25"),
                ("cloze", "start"),
            )
        },
    }
    store("document_encoder", figures)
    print(json.dumps(figures))
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--start", choices=start_names(), default="english")
    parser.add_argument("--steps", type=int, default=PRETRAINING.steps, help="of the cloze task")
    parser.add_argument("--batch-size", type=int, default=PRETRAINING.batch_size, help="likewise")
    parser.add_argument("--device", default="cpu", help="to compute on (default: cpu)")
    parser.add_argument("--workers", type=int, default=0, help="processes that prepare batches")
    parser.add_argument("--output", type=Path, default=root / "runs" / "document_encoder")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    return parser.parse_args()


class Made:
    """The arms' encoders: made when asked for, and found again where they were.

    Args:
        start: of the claims' studies.
        leg: that passed its gate.
        data: folder of the public sets.
        options: of the command line.
    """

    def __init__(self, start: Start, leg: int, data: Path, options: argparse.Namespace) -> None:
        self._start, self._leg, self._data, self._options = start, leg, data, options
        self.pretraining = replace(PRETRAINING, steps=options.steps, batch_size=options.batch_size)
        options.output.mkdir(parents=True, exist_ok=True)

    def encoder(self, arm: str) -> SentenceEncoder:
        """The encoder of ``arm``."""
        if arm == "random":
            return self._start.drawn()
        if arm == "start":
            return self._start.trained(self._leg).float()
        if arm == "cloze":
            return self._trained(arm, "start", "ict", CLOZE, self.pretraining, self._pages)
        before = arm.removesuffix(" tuned")
        return self._trained(arm, before, "fine_tune", TUNING, FINE_TUNING, self._triples)

    def _trained(
        self,
        arm: str,
        before: str,
        objective: str,
        settings: dict[str, Any],
        config: PretrainingConfig,
        texts: Callable[[], GroupList],
    ) -> SentenceEncoder:
        folder = self._options.output / arm.replace(" ", "-")
        if not folder.is_dir():
            encoder = to_device(self.encoder(before), self._options.device)
            run = folder.with_suffix(".run")
            learnt = pretrain(
                encoder,
                [Part(build_objective(objective, encoder, settings), texts())],
                replace(config, workers=self._options.workers),
                run=run,
                show_progress_bar=sys.stderr.isatty(),
            )
            learnt.cpu().save(folder, more={"log.jsonl": (run / "log.jsonl").read_bytes()})
        return SentenceEncoder.load(folder)

    def _pages(self) -> GroupList:
        return pages(self._data)[0]

    def _triples(self) -> GroupList:
        """Questions on SQuAD's other articles and SciFact's training claims, shuffled."""
        squad = read_collection(find_files(self._data / "squad_dev_passages"))
        folder = self._data / "scifact"
        training = [folder / f"{part}.train.tsv" for part in ("queries", "qrels")]
        claims = read_collection(CollectionFiles(find_files(folder).corpus, *training))
        found = [
            triple
            for collection in (without_held_out(squad), claims)
            for triple in _mined(collection)
        ]
        random.Random(0).shuffle(found)
        return GroupList(found, "triples")


def without_held_out(whole: Collection) -> Collection:
    """The documents of the articles that no test asks about, and the questions on them."""
    documents = [one for one in whole.documents if not is_held_out(one.id)]
    kept = {one.id for one in documents}
    judgements = {
        query: grades for query, grades in whole.judgements.items() if grades.keys() <= kept
    }
    return Collection.of(documents, [q for q in whole.queries if q.id in judgements], judgements)


def _mined(collection: Collection) -> Iterator[Group]:
    questions = Questions.of_collection(collection)
    negatives = NegativesConfig(negatives=TUNING["negatives"], depth=50)
    return mine_triples(questions, [Bm25Ranker(questions.passages)], negatives)


def scored(
    encoder: SentenceEncoder, collections: dict[str, Collection]
) -> dict[str, dict[str, list[float]]]:
    """nDCG@10 of every query, by collection: by the encoder's meaning, by BM25, and by both."""
    found: dict[str, dict[str, list[float]]] = {"teacher": {}, "bm25": {}, "hybrid": {}}
    for name, collection in collections.items():
        scores = evaluate(collection, None, encoder).scores
        for row, by_collection in found.items():
            by_collection[name] = scores[row].per_query["ndcg@10"].tolist()
    return found


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def compared(one: dict[str, list[float]], other: dict[str, list[float]]) -> dict[str, list[float]]:
    """By collection, and over all of them: the difference and its interval."""
    pairs = {name: (np.array(one[name]), np.array(other[name])) for name in one}
    groups = {**{name: [pair] for name, pair in pairs.items()}, "mean": list(pairs.values())}
    found = {}
    for name, some in groups.items():
        interval = bootstrap_difference(some)
        found[name] = [round(v, 4) for v in (interval.estimate, interval.low, interval.high)]
    return found


if __name__ == "__main__":
    raise SystemExit(main())
