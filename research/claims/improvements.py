"""Does every objective make its start better? Each is run from one line of the shell.

    python research/claims/improvements.py [--only NAME ...] [--data FOLDER]

``LINES`` are commands as a reader of research/pretraining.md types them, on the public sets, and
``WORD2VEC`` is what stands there in Python. ``base`` is a 2x128 encoder that learnt masked words on
Wikipedia; the other lines start from it. What came out is compared with its start on the
objective's own test, item by item: a paired bootstrap interval.

What a line made is kept in ``runs/improvements``: killed and started again, the benchmark goes on
with the next. The last line is one JSON object; the exit status is 1 where an interval is not
above zero.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from auto_mlm import answer_hits
from data_files import objects
from numpy.typing import NDArray
from quality_sets import data_folder
from query_bert import placements
from retrieval_test import dense_ranks, rank_scores
from texts.data_sets import news, services
from texts.passage_tests import passage_test

from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.index.documents import content
from pocketquery.server.corpus import CollectionFiles, read_collection
from pocketquery.server.evaluation import bootstrap_difference, rank_exactly, score_rankings
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import load_mlm_heads
from pocketquery.server.modeling.presets import new_encoder
from pocketquery.server.objectives import build_objective
from pocketquery_research.augmentation.word2vec import WordVectors, words_of
from pocketquery_research.evaluation.duplicate_pairs import read_duplicate_pairs

WORK = Path(__file__).resolve().parents[2] / "runs" / "improvements"
TRAINING = "--steps 300 --batch-size 32 --learning-rate 5e-4 --max-length 48 --held-out 0"

Scores = NDArray[np.float64]
Encode = Callable[[list[str]], NDArray[np.float32]]
Test = Callable[[Encode], Scores]


@dataclass(frozen=True)
class Line:
    """What a reader types, and what it is tested by.

    Attributes:
        arguments: of ``pocketquery``; ``$DATA`` is the folder of the public sets.
        test: name of the test, see :func:`tests_of`.
        start: folder it starts from; ``""``: the weights as they were drawn.
        further: what it says beside ``TRAINING``, and instead of it.
    """

    arguments: str
    test: str
    start: str = "base"
    further: str = ""

    def command(self, output: str) -> str:
        return " ".join(f"{self.arguments} {TRAINING} {self.further} --output {output}".split())


_WIKI = (
    "--documents $DATA/enwiki_articles/articles.jsonl.gz $DATA/squad_dev_passages/corpus.jsonl.gz"
)

PREPARATIONS = {
    "pairs": f"mine pairs {_WIKI} --output pairs",
    "duplicates": "mine store --pairs $DATA/quora/train.tsv.gz --columns question1,question2 "
    "--where label=1 --output duplicates",
    "triples": "mine triples --corpus $DATA/scifact/corpus.jsonl.gz --negatives 3 "
    "--queries $DATA/scifact/queries.train.tsv --qrels $DATA/scifact/qrels.train.tsv "
    "--output triples",
}

LINES = {
    "mlm": Line(
        f"pretrain {_WIKI} --objective mlm --init nano --steps 1000 --learning-rate 1e-3 "
        "--max-length 48 --output base",
        "masked",
        start="",
    ),
    **{
        name: Line(f"pretrain --init base {_WIKI} --objective {name}", "questions")
        for name in ("simcse", "contrastive", "ict", "prop", "tsdae", "cmlm")
    },
    "cpdae": Line(
        f"pretrain --init base {_WIKI} --objective cpdae",
        "questions",
        further="--set cpdae.rec_reduction=per_positive",  # as its figure was measured
    ),
    "seed": Line(
        f"pretrain --init base {_WIKI} --objective seed",
        "questions",
        further="--steps 1000 --learning-rate 1e-3",  # its decoder reads neighbours first
    ),
    "gur": Line("pretrain --init base --pairs pairs --objective gur", "questions"),
    "auto_mlm": Line(
        "pretrain --init base --sessions $DATA/sgd_dialogues/train.jsonl.gz --objective auto_mlm",
        "answers",
    ),
    "query_bert": Line(
        "pretrain --init base --pairs duplicates --objective query_bert "
        "--set query_bert.momentum=0.9",
        "duplicates",
    ),
    "ccp": Line(
        f"pretrain --init base {_WIKI} --objective ccp",
        "neighbours",
        # Every other step is MLM; with batches of 32 a bank ends in collapse.
        further="--set ccp.bank=none --steps 600",
    ),
    "fine_tune": Line(
        "pretrain --init base --triples triples --objective fine_tune --set fine_tune.negatives=3",
        "claims",
    ),
}

WORD2VEC = """\
import os

from pocketquery.server.corpus import read_groups
from pocketquery_research.augmentation.word2vec import Word2VecConfig, train_word2vec

path = os.path.join(os.environ["DATA"], "squad_dev_passages/corpus.jsonl.gz")
texts = [text for group in read_groups(path, "documents") for text in group.texts]
train_word2vec(texts, Word2VecConfig(subsampling=1e-3)).save("words.npz")
"""


def main() -> int:
    arguments = parse_arguments()
    data = data_folder(arguments.data)
    WORK.mkdir(parents=True, exist_ok=True)
    tests = tests_of(data)
    found: dict[str, Any] = {}
    for name, command in PREPARATIONS.items():
        shell(command, name, data)
    shell(LINES["mlm"].arguments, "base", data)
    for name in arguments.only:
        before, after = scores(name, data, tests)
        gain = bootstrap_difference([(after, before)])
        found[name] = {
            "test": "contexts" if name == "word2vec" else LINES[name].test,
            "start": round(float(before.mean()), 4),
            "end": round(float(after.mean()), 4),
            "gain": [round(value, 4) for value in (gain.estimate, gain.low, gain.high)],
        }
        print(f"{name}: {found[name]}", flush=True)
    missed = [name for name, figures in found.items() if figures["gain"][1] <= 0]
    print(json.dumps({"objectives": found, "missed": missed}))
    return 1 if missed else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = (*LINES, "word2vec")
    parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="NAME")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    return parser.parse_args()


def shell(command: str, output: str, data: Path) -> None:
    """Run one line in ``WORK``, unless what it makes is there."""
    if (WORK / output).exists():
        return
    words = shlex.split(command.replace("$DATA", str(data.resolve())))
    print(f"pocketquery {command}", flush=True)
    subprocess.run(
        [sys.executable, "-m", "pocketquery.sdk", *words],
        cwd=WORK,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def scores(name: str, data: Path, tests: dict[str, Test]) -> tuple[Scores, Scores]:
    """Scores of the start and of what the line makes of it; kept when they are made."""
    path = WORK / f"{name}.json"
    if not path.is_file():
        before, after = (
            word_vectors(data, tests)
            if name == "word2vec"
            else encoders(LINES[name], name, data, tests)
        )
        write_atomic(path, json.dumps([before.tolist(), after.tolist()]))
    before, after = json.loads(path.read_text(encoding="utf-8"))
    return np.array(before), np.array(after)


def encoders(line: Line, name: str, data: Path, tests: dict[str, Test]) -> tuple[Scores, Scores]:
    output = "base" if name == "mlm" else f"{name}-encoder"
    if name != "mlm":
        shell(line.command(output), output, data)
    ended = SentenceEncoder.load(WORK / output)
    if line.start:
        started = SentenceEncoder.load(WORK / line.start)
        started.pooling = ended.pooling
    else:
        torch.manual_seed(0)
        started = new_encoder("nano", ended.tokenizer, max_length=ended.max_length)
    if line.test == "masked":
        return masked(started, None, data), masked(ended, WORK / output, data)
    test = tests[line.test]
    return test(started.eval().encode), test(ended.encode)


def masked(encoder: SentenceEncoder, head: Path | None, data: Path) -> Scores:
    """The accuracy over the masked subword tokens of each text."""
    torch.manual_seed(0)  # a drawn head
    objective = build_objective("mlm", encoder, {"max_length": encoder.max_length})
    if head is not None:
        load_mlm_heads(head, [objective])
    objective.eval()
    encoder.eval()
    found = []
    for row, thing in enumerate(objects(data / "wikitext2_valid_test/test.jsonl.gz")):
        batch = objective.collate([thing["paragraphs"][0]["text"]], np.random.default_rng(row))
        with torch.no_grad():
            found.append(float(objective.loss(encoder, batch).stats["mlm_accuracy"]))
    return np.array(found)


def word_vectors(data: Path, tests: dict[str, Test]) -> tuple[Scores, Scores]:
    """Averages of trained word vectors beside averages of drawn ones."""
    if not (WORK / "words.npz").is_file():
        print("Word2Vec, in Python", flush=True)
        environment = {**os.environ, "DATA": str(data.resolve())}
        subprocess.run([sys.executable, "-c", WORD2VEC], cwd=WORK, check=True, env=environment)
    trained = WordVectors.load(WORK / "words.npz")
    drawn = np.random.default_rng(0).standard_normal(trained.vectors.shape).astype(np.float32)
    test = tests["contexts"]
    return test(partial(averages, replace(trained, vectors=drawn))), test(
        partial(averages, trained)
    )


def averages(words: WordVectors, texts: list[str]) -> NDArray[np.float32]:
    vectors, _ = words.averages(texts)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(norms, 1e-9)
    return unit


def tests_of(data: Path) -> dict[str, Test]:
    """By name: scores of single items, given what turns texts into unit vectors.

    * ``masked``: see :func:`masked`;
    * ``questions``: recall@10 of SQuAD's questions among its paragraphs;
    * ``contexts``: is a word of Wikipedia nearer to the next one than to a word drawn at random;
    * ``answers``: is the agent's answer nearest, among 99 others;
    * ``duplicates``: of each duplicate the share of other question pairs that score below it;
    * ``neighbours``: of each sentence of NTREX's English news, is the next one among the ten
      nearest of all;
    * ``claims``: nDCG@10 of SciFact's test claims among its abstracts.
    """
    return {
        "questions": partial(_questions, data),
        "contexts": partial(_contexts, data),
        "answers": partial(_answers, data),
        "duplicates": partial(_duplicates, data),
        "neighbours": partial(_neighbours, data),
        "claims": partial(_claims, data),
    }


def _questions(data: Path, encode: Encode) -> Scores:
    _, test = passage_test(data)
    asked = encode([text for text, _ in test.test])
    ranks = dense_ranks(asked, encode(test.passages), [row for _, row in test.test])
    return rank_scores(ranks)["recall@10"]


def _contexts(data: Path, encode: Encode) -> Scores:
    rows = objects(data / "wikitext2_valid_test/test.jsonl.gz")
    texts = [words_of(row["paragraphs"][0]["text"]) for row in rows]
    vocabulary = sorted({word for text in texts for word in text})
    vectors = dict(zip(vocabulary, encode(vocabulary), strict=True))
    known = [[word for word in text if vectors[word].any()] for text in texts]
    pool, rng = [word for text in known for word in text], random.Random(0)
    hits = [
        vectors[word] @ vectors[following] > vectors[word] @ vectors[rng.choice(pool)]
        for text in known
        for word, following in pairwise(text)
        if word != following
    ]
    return np.array(hits, dtype=np.float64)


def _answers(data: Path, encode: Encode) -> Scores:
    _, test = services(data)
    return answer_hits(encode, test.queries, test.answers)


def _duplicates(data: Path, encode: Encode) -> Scores:
    pairs = read_duplicate_pairs(data / "quora/valid.tsv.gz")
    first, second = (encode([p.first for p in pairs]), encode([p.second for p in pairs]))
    cosines = (first * second).sum(axis=1).astype(np.float64)
    return placements(cosines, np.array([pair.duplicate for pair in pairs]))


def _neighbours(data: Path, encode: Encode) -> Scores:
    documents = news(data, ("eng",))
    sentences = [documents[row].texts for row in range(len(documents))]
    vectors = encode([text for texts in sentences for text in texts])
    scores = vectors @ vectors.T - 2 * np.eye(len(vectors), dtype=np.float32)
    ends = np.cumsum([len(texts) for texts in sentences]) - 1
    rows = np.setdiff1d(np.arange(len(vectors)), ends)  # which have a next one
    nearer = (scores[rows] >= scores[rows, rows + 1][:, None]).sum(axis=1)
    hits: Scores = (nearer <= 10).astype(np.float64)
    return hits


def _claims(data: Path, encode: Encode) -> Scores:
    folder = data / "scifact"
    test = read_collection(
        CollectionFiles(
            folder / "corpus.jsonl.gz", folder / "queries.test.tsv", folder / "qrels.test.tsv"
        )
    )
    vectors = encode([content(document) for document in test.documents])
    ids = [document.id for document in test.documents]
    lists = rank_exactly(encode([query.text for query in test.queries]), vectors, ids, 10)
    rankings = {query.id: found for query, found in zip(test.queries, lists, strict=True)}
    return score_rankings(test.judgements, rankings).per_query["ndcg@10"]


if __name__ == "__main__":
    raise SystemExit(main())
