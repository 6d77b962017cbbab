"""Students of multilingual-e5-small, by number of examples, and what each keeps of it.

    python -m pocketquery_research.presets.multilingual_small --data DATA --work FOLDER \\
        --encode 70000 --examples 0 8192 32768

The teacher's int8 graph gives the vectors of Common Voice's sentences (40 languages in turns). They
stay in FOLDER/vectors, 2,000 texts a shard, for every recipe and every later run. A student is two
layers of 384 over a cut vocabulary in product codes, under a head that begins as a regression: the
teacher's ``--layers``, or with ``--words`` layers that change nothing yet over a table fitted to
the vectors. Each number of examples is a run with a folder of its own in FOLDER.
Killed and run again, everything goes on where it was. The first shard teaches nobody: settings are
chosen by how many of the teacher's ten nearest among its texts a student finds, which each run
prints. The last line is the curve as JSON; with ``--judge`` also shares of the teacher's nDCG@10 on
XQuAD over the teacher's passages, in the same language and to English.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.distill.distillation import distill
from pocketquery.distill.settings import StudentConfig, TrainingConfig
from pocketquery.distill.vector_file import FileTeacher
from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.files import write_atomic
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.multilingual.sets import (
    LANGUAGES,
    Scores,
    cross,
    dense_scores,
    read_xquad,
    share_interval,
)
from pocketquery_research.multilingual.teacher_graph import TeacherGraph, kept, sentences
from pocketquery_research.presets.overlap import nearest_shared

__all__ = ["main"]

Figures = dict[str, Any]
_SHARD = 2000  # texts
_TOKENS = 32  # of a text that is learnt from, with its prompt
_RANKED = 8192  # texts that stand for documents; ranking all by all takes longer than they do
_QUESTIONS = 218  # a language
_NO_RATE = 1e-12  # of the one step of a student that has learnt from nothing
_ASKING = 1000  # held-out texts


def in_turns(lists: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first of each list, the second of each, until the longest ends."""
    return (text for row in zip_longest(*lists) for text in row if text is not None)


def make_shards(teacher: TeacherGraph, data: Path, place: Path, count: int) -> None:
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


def joined(
    tokenizer: Any, place: Path, path: Path, passages: dict[str, NDArray[np.float32]]
) -> FileTeacher:
    """All shards' short texts as one file that teaches. It names no space, so that the teacher's
    layers begin under a head of regression, as those of any start in another space do.

    Args:
        tokenizer: the teacher's.
        place: of the shards.
        path: of the file.
        passages: what stands for documents, with the teacher's vectors; none: some of the texts.
    """
    if not path.is_file():
        vectors: dict[str, Any] = {}
        for shard in sorted(place.glob("shard-*.npy"))[1:]:
            rows = zip(_texts(shard), np.load(shard), strict=True)
            vectors |= {text.strip(): row for text, row in rows if text.strip()}
        lengths = [len(ids) for ids in tokenizer(list(vectors))["input_ids"]]
        texts = [one for one, length in zip(vectors, lengths, strict=True) if length <= _TOKENS]
        ranked = list(passages) or texts[:: -(-len(texts) // _RANKED)]
        vectors |= passages
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


def measure(student: SentenceEncoder, teacher: TeacherGraph, data: Path, work: Path) -> Figures:
    """Shares of the teacher's nDCG@10 over the teacher's passages, with intervals of 95 %."""
    own: dict[tuple[str, str], Scores] = {}
    theirs: dict[tuple[str, str], Scores] = {}
    sets = {language: read_xquad(data, language, _QUESTIONS) for language in LANGUAGES}
    queries, documents = teacher.sides()
    read = {name: kept(work, "teacher/", one.passages, documents) for name, one in sets.items()}
    for language, one in sets.items():
        questions = kept(work, "teacher", one.questions, queries)
        asked = student.encode_query(one.questions)
        for into in {language, "en"}:
            crossed = cross(one, sets[into])
            theirs[language, into] = dense_scores(crossed, questions, read[into])
            own[language, into] = dense_scores(crossed, asked, read[into])
    figures: Figures = {
        f"{one} to {other}": float(own[one, other].mean() / theirs[one, other].mean())
        for one, other in own
    }
    for kind, pairs in (
        ("same", [pair for pair in own if pair[0] == pair[1]]),
        ("to English", [pair for pair in own if pair[0] != pair[1]]),
    ):
        ours = np.stack([own[pair] for pair in pairs])  # (pairs, questions); the same questions
        base = np.stack([theirs[pair] for pair in pairs])
        figures[kind] = float((ours.mean(axis=1) / base.mean(axis=1)).mean())
        figures[f"{kind}, interval"] = share_interval(ours, base)
    return figures


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
    parser.add_argument("--passages", type=Path, help="a passage a line, to rank: passages.py")
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
        ranking = f"-{options.passages.stem}" if options.passages else ""
        teacher = TeacherGraph(work, options.data)
        make_shards(teacher, options.data, work / "vectors", options.encode)
        texts = options.passages.read_text("utf-8").splitlines() if options.passages else []
        vectors: Any = kept(work, "teacher/", texts, teacher.sides()[1]) if texts else []
        taught = joined(
            teacher.encoder.tokenizer,
            work / "vectors",
            work / f"vectors-{options.encode}{ranking}.npz",
            dict(zip(texts, vectors, strict=True)),
        )
        curve: dict[int, Any] = {}
        kind = ("words" if options.words else "-".join(map(str, options.layers))) + ranking
        name = f"{kind}-{options.rate:g}-{options.warmup:g}-{options.temperature:g}-{options.seed}"
        shape = f"{len(options.layers)}x384x768-pq4"
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
                start="words" if options.words else teacher.encoder,
                tokenizer=teacher.encoder.tokenizer if options.words else None,
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
