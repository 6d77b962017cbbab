"""Students of multilingual-e5-small, by number of examples, and what each keeps of it.

    python -m pocketquery_research.presets.multilingual_small --data DATA --work FOLDER \\
        --encode 70000 --examples 0 8192 32768

The teacher's int8 graph gives the vectors of Common Voice's sentences (40 languages in turns). They
stay in FOLDER/vectors, 2,000 texts a shard, for every recipe and every later run. A student is two
layers of 384 over a cut vocabulary in product codes, under a head that begins as a regression: the
teacher's ``--layers``, or with ``--words`` layers that change nothing yet over a table fitted to
the vectors (words_start.py). Each number of examples is a run with a folder of its own in FOLDER.
Killed and run again, everything goes on where it was. The first shard teaches nobody: settings are
chosen by how many of the teacher's ten nearest among its texts a student finds, which each run
prints. The last line is the curve as JSON; with ``--judge`` also shares of the teacher's nDCG@10 on
XQuAD over the teacher's passages, in the same language and to English.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import sys
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from pocketquery.distill.distillation import distill
from pocketquery.distill.settings import StudentConfig, TrainingConfig
from pocketquery.distill.vector_file import FileTeacher
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.quantization.quantization import quantize
from pocketquery.export.quantization.smoothing import activation_ranges, smooth
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import GraphOptions
from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.files import write_atomic
from pocketquery.server.evaluation import score_rankings
from pocketquery.server.evaluation.ranking import rank_exactly
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.presets.words_start import nearest_shared, words_start

__all__ = ["main"]

Vectors = NDArray[np.float32]
LANGUAGES = ("en", "de", "es", "ru", "ar", "hi", "vi", "zh")  # XQuAD's
_SHARD = 2000  # texts
_TOKENS = 32  # of a text that is learnt from, with its prompt
_RANKED = (
    8192  # texts that stand for documents: the ranking of all by all takes longer than they do
)
_STEP = 4  # every fourth question of XQuAD
_DRAWS = 1000
_NO_RATE = 1e-12  # of the one step of a student that has learnt from nothing
_ASKING = 1000  # held-out texts
_CALIBRATION = 13  # sentences a language, of the int8 graph


class Teacher:
    """The int8 graph of the teacher, made once in ``work``, and opened when it is needed."""

    def __init__(self, work: Path, data: Path) -> None:
        self._work, self._data = work, data
        self.encoder = SentenceEncoder.load("multilingual")
        self._session: GraphSession | None = None

    def encode(self, texts: Sequence[str], role: str) -> Vectors:
        """Unit vectors, float32 (n, 384)."""
        rows = self.encoder.tokenizer(
            [self.encoder.prompts[role] + text for text in texts], truncation=True, max_length=512
        )
        self._session = self._session or GraphSession(self._graph())
        return self._session.encode(rows["input_ids"])

    def kept(self, path: Path, texts: Sequence[str], role: str) -> Vectors:
        """The same, out of ``path`` where it is there."""
        if not path.is_file():
            _save(path, self.encode(texts, role).astype(np.float16))
        vectors: Vectors = np.load(path).astype(np.float32)
        return vectors

    def _graph(self) -> onnx.ModelProto:
        path = self._work / "int8.onnx"
        if not path.is_file():
            teacher = self.encoder.with_device_ids()
            model = build_graph(teacher, GraphOptions(adapter_rank=0))
            prompts = [teacher.prompts["query"], teacher.prompts["document"]]
            texts = [text for lines in sentences(self._data) for text in lines[:_CALIBRATION]]
            rows = teacher.tokenizer([prompts[i % 2] + text for i, text in enumerate(texts)])
            graph = quantize(smooth(model, activation_ranges(model, rows["input_ids"])))
            write_atomic(path, graph.SerializeToString())
        return onnx.load(path)


def sentences(data: Path) -> list[list[str]]:
    """Common Voice's, a list a language."""
    files = sorted((data / "common_voice_sentences").glob("*.txt.xz"))
    return [lzma.decompress(file.read_bytes()).decode("utf-8").splitlines() for file in files]


def in_turns(lists: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first of each list, the second of each, until the longest ends."""
    return (text for row in zip_longest(*lists) for text in row if text is not None)


def make_shards(teacher: Teacher, data: Path, place: Path, count: int) -> None:
    """Vectors of the first ``count`` texts, whole shards; those that are there are passed over."""
    texts = list(islice(in_turns(sentences(data)), count))
    for number, start in enumerate(range(0, len(texts), _SHARD)):
        part = texts[start : start + _SHARD]
        path = place / f"shard-{number:05}.npy"
        if not path.is_file():
            place.mkdir(parents=True, exist_ok=True)
            listed = json.dumps([["", text] for text in part], ensure_ascii=False)
            write_atomic(path.with_suffix(".json"), listed.encode())
            _save(path, teacher.encode(part, "query").astype(np.float16))
            print(f"{path.name} of {-(-len(texts) // _SHARD)}", file=sys.stderr, flush=True)


def joined(tokenizer: Any, place: Path, path: Path) -> FileTeacher:
    """All shards' short texts as one file that teaches. It names no space, so that the teacher's
    layers begin under a head of regression, as those of any start in another space do."""
    if not path.is_file():
        vectors: dict[str, Any] = {}
        for shard in sorted(place.glob("shard-*.npy"))[1:]:
            rows = zip(_texts(shard), np.load(shard), strict=True)
            vectors |= {text.strip(): row for text, row in rows if text.strip()}
        lengths = [len(ids) for ids in tokenizer(list(vectors))["input_ids"]]
        texts = [one for one, length in zip(vectors, lengths, strict=True) if length <= _TOKENS]
        ranked = texts[:: -(-len(texts) // _RANKED)]
        temporary = path.with_suffix(".part.npz")
        np.savez(
            temporary,
            text=np.array([*texts, *ranked]),
            vector=np.stack([vectors[one] for one in [*texts, *ranked]]).astype(np.float32),
            role=np.array(["query"] * len(texts) + ["document"] * len(ranked)),
        )
        temporary.rename(path)
    return FileTeacher(path)


def held_out(student: SentenceEncoder, place: Path) -> float:
    """The share of the teacher's ten nearest of the first shard's texts that a student finds."""
    shard = place / "shard-00000.npy"
    vectors = np.load(shard).astype(np.float32)
    return nearest_shared(student.encode_query(_texts(shard)[:_ASKING]), vectors)


def measure(student: SentenceEncoder, teacher: Teacher, data: Path, work: Path) -> dict[str, Any]:
    """Shares of the teacher's nDCG@10 over the teacher's passages, with intervals of 95 %."""
    own: dict[tuple[str, str], NDArray[np.float64]] = {}
    theirs: dict[tuple[str, str], NDArray[np.float64]] = {}
    judged: dict[str, dict[str, int]] = {}
    for name, passage, *_ in _table(data / "xquad" / "qrels.tsv"):
        judged.setdefault(name, {})[passage] = 1
    read = {}
    for language in LANGUAGES:
        folder = data / "xquad"
        with gzip.open(folder / f"{language}.corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            passages = {one["_id"]: one["text"] for one in map(json.loads, lines)}
        place = work / f"xquad-{language}-passages.npy"
        read[language] = list(passages), teacher.kept(place, list(passages.values()), "document")
        rows = [row for row in _table(folder / f"{language}.queries.tsv.gz") if row[0] in judged]
        names, questions = zip(*rows[::_STEP], strict=True)
        vectors = {
            "teacher": teacher.kept(work / f"xquad-{language}-questions.npy", questions, "query"),
            "student": student.encode_query(list(questions)),
        }
        right = {name: judged[name] for name in names}
        for into in {language, "en"}:
            for who, scores in (("teacher", theirs), ("student", own)):
                ids, documents = read[into]
                rankings = rank_exactly(vectors[who], documents, ids, 10)
                scored = score_rankings(right, dict(zip(names, rankings, strict=True)))
                by_name = dict(zip(scored.query_ids, scored.per_query["ndcg@10"], strict=True))
                scores[language, into] = np.array([by_name[name] for name in names])
    figures: dict[str, Any] = {
        f"{one} to {other}": float(own[one, other].mean() / theirs[one, other].mean())
        for one, other in own
    }
    for kind, pairs in (
        ("same", [pair for pair in own if pair[0] == pair[1]]),
        ("to English", [pair for pair in own if pair[0] != pair[1]]),
    ):
        ours = np.stack([own[pair] for pair in pairs])  # (pairs, questions); the same questions
        base = np.stack([theirs[pair] for pair in pairs])
        drawn = np.random.default_rng(0).integers(0, ours.shape[1], (_DRAWS, ours.shape[1]))
        shares = (ours[:, drawn].mean(axis=2) / base[:, drawn].mean(axis=2)).mean(axis=0)
        figures[kind] = float((ours.mean(axis=1) / base.mean(axis=1)).mean())
        figures[f"{kind}, interval"] = [float(x) for x in np.quantile(shares, (0.025, 0.975))]
    return figures


def _table(path: Path) -> list[list[str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def _texts(shard: Path) -> list[str]:
    listed = json.loads(shard.with_suffix(".json").read_text(encoding="utf-8"))
    return [text for _, text in listed]


def _save(path: Path, vectors: NDArray[Any]) -> None:
    temporary = path.with_suffix(".part.npy")
    np.save(temporary, vectors)
    temporary.rename(path)


def main() -> int:
    """Read the command line; encode, train and measure what is not there yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--encode", type=int, default=70_000, help="texts, of the teacher")
    parser.add_argument("--examples", type=int, nargs="*", default=[0, 8192, 32_768, 131_072])
    parser.add_argument("--layers", type=int, nargs="*", default=[0, 11], help="of the teacher")
    parser.add_argument("--words", action="store_true", help="no layer of the teacher")
    parser.add_argument("--vocabulary", type=int, default=60_000)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--warmup", type=float, default=0.1)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--judge", action="store_true", help="on XQuAD, too")
    options = parser.parse_args()
    work: Path = options.work
    try:
        work.mkdir(parents=True, exist_ok=True)
        teacher = Teacher(work, options.data)
        make_shards(teacher, options.data, work / "vectors", options.encode)
        taught = joined(
            teacher.encoder.tokenizer, work / "vectors", work / f"vectors-{options.encode}.npz"
        )
        curve: dict[int, Any] = {}
        kind = "words" if options.words else "-".join(map(str, options.layers))
        name = f"{kind}-{options.rate:g}-{options.warmup:g}-{options.temperature:g}-{options.seed}"
        start = teacher.encoder
        shape = f"{len(options.layers)}x384x768-pq4"
        if options.words:
            vectors = taught.encode(taught.texts, prompt_name="query")
            start = words_start(shape, start.tokenizer, taught.texts, vectors)
        for examples in options.examples:
            output = work / f"{name}-{examples}"
            report = distill(
                taught,
                taught.texts,
                output,
                documents=taught.documents,
                student=StudentConfig(
                    shape,
                    layers=None if options.words else tuple(options.layers),
                    vocabulary_size=options.vocabulary,
                    max_length=64,
                ),
                start=start,
                cache=work / "targets",
                config=TrainingConfig(
                    steps=max(1, examples // 128),
                    batch_size=128,
                    learning_rate=options.rate if examples else _NO_RATE,
                    warmup=options.warmup,
                    temperature=options.temperature,
                    max_length=64,
                    checkpoint_every=64,
                    seed=options.seed,
                    bfloat16=True,
                ),
                show_progress_bar=True,
            )
            student = SentenceEncoder.load(output)
            found: dict[str, Any] = {"held out": held_out(student, work / "vectors")}
            found |= measure(student, teacher, options.data, work) if options.judge else {}
            curve[examples] = found
            print(report.start, output.name, json.dumps(found), flush=True)
    except PocketQueryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps({"texts": len(taught.texts), "student": name, "curve": curve}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
