"""A corpus of a million texts on the Ray engine: encoded, indexed and sliced, with workers killed.

The texts are sentences of the public pages of Wikipedia and, until there are enough, clauses of
them and runs of eight words, each once, each with the tenant that a hash of its text names. They
are written as shards, encoded by the built-in encoder, indexed, and the index is cut into
a slice for every tenant, by workers, too. In both steps a worker is killed (SIGKILL) once. What is
finished is kept: the same command goes on where an earlier one ended, and kills again.

Every text must be in exactly one slice, and the shard that was in work when the worker died must
have the bytes that the local engine writes. Texts a second are printed beside the local engine's.

    benchmarks/ray_corpus.py --texts 1000000 --data data --output runs/ray_corpus
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import shutil
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
from data_files import objects
from quality_sets import data_folder

from pocketquery import sdk
from pocketquery.sdk.files import sha256_file, write_atomic
from pocketquery.sdk.indexing.document_encoder import EncoderSource
from pocketquery.server.corpus import split_sentences
from pocketquery_corpus.encoding import encode_corpus
from pocketquery_corpus.engine import Engine, run_parts
from pocketquery_corpus.indexing import build_encoded_index
from pocketquery_corpus.parts import ShardPart, open_parts

TENANTS = ("a", "b", "c", "d")
_CLAUSE = re.compile(r"(?<=[,;:])\s+")
_RUN = re.compile(r"(?:\S+\s+){7}\S+")
_LEAST_WORDS = 4
_SECONDS_BETWEEN = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--shard", type=int, default=10_000, help="texts a shard")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    parser.add_argument("--output", default="runs/ray_corpus", help="kept, to go on with")
    options = parser.parse_args()
    output = Path(options.output).absolute()
    shards = output / "shards"
    write_shards(data_folder(options.data), shards, options.texts, options.shard)
    engine = Engine("ray", options.workers)
    figures: dict[str, Any] = {"texts": options.texts, "workers": options.workers}

    if not (output / "index").exists():
        encode(shards, output, engine, options.texts)
        step("index", output, lambda: build_encoded_index(output / "encoded", output / "index"))
    slices(output, engine)

    counts = {one: len(sdk.open_index(output / "slices" / one)) for one in TENANTS}
    killed = json.loads((output / "killed.json").read_text())
    figures |= {
        "seconds": json.loads((output / "seconds.json").read_text()),
        "workers_killed": killed,
        "documents": counts,
        "in_one_slice": sum(counts.values()) / options.texts,
        **local(shards, output, killed["encode"]["shard"], options.shard),
    }
    encoded = figures["seconds"]["encode"]
    figures["encoded_per_second"] = options.texts / encoded
    print(f"encode {figures['encoded_per_second']:.0f} texts a second on {options.workers} workers")
    print(f"local  {figures['local_per_second']:.0f} texts a second")
    print(json.dumps(figures))
    sys.exit(0 if figures["in_one_slice"] == 1 and figures["equal_bytes"] else 1)


def write_shards(data: Path, folder: Path, count: int, each: int) -> None:
    """Write ``count`` texts as JSON Lines, ``each`` a file, where they are not there yet."""
    if (folder / "complete").exists() and (folder / "complete").read_text() == f"{count} {each}":
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = islice(distinct(data), count)
    number = written = 0
    while some := list(islice(texts, each)):
        lines = [
            json.dumps({"_id": f"{number}-{row}", "text": text, "tenant": tenant_of(text)})
            for row, text in enumerate(some)
        ]
        write_atomic(folder / f"{number:05d}.jsonl", "\n".join(lines) + "\n")
        number, written = number + 1, written + len(some)
    if written < count:
        sys.exit(f"the data have {written} texts, fewer than {count}: name fewer with --texts")
    write_atomic(folder / "complete", f"{count} {each}")


def tenant_of(text: str) -> str:
    """The one that the text's hash names."""
    return TENANTS[zlib.crc32(text.encode()) % len(TENANTS)]


def distinct(data: Path) -> Iterator[str]:
    """Sentences, then clauses, then runs of words, each once."""
    seen = set[int]()
    for cut in (lambda sentence: [sentence], _CLAUSE.split, _RUN.findall):
        for page in pages(data):
            for paragraph in page["paragraphs"]:
                for sentence in split_sentences(paragraph["text"]):
                    for text in cut(sentence):
                        name = hash(text)
                        if len(text.split()) >= _LEAST_WORDS and name not in seen:
                            seen.add(name)
                            yield text


def pages(data: Path) -> Iterator[dict[str, Any]]:
    """Wikipedia's pages, as far as they are there."""
    with lzma.open(data / "enwiki_pages" / "pages.jsonl.xz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
    yield from objects(data / "enwiki_articles" / "articles.jsonl.gz")


def encode(shards: Path, output: Path, engine: Engine, texts: int) -> None:
    """Encode on Ray; a worker is killed when a tenth of the shards, at least one, is there."""
    if (output / "encoded").exists():
        return
    parts = output / ".encoded.parts"
    before = len(list(parts.glob("part-*")))
    least = before + max(1, len(list(shards.glob("*.jsonl"))) // 10)
    with killing(output, "encode", parts, least):
        step(
            "encode",
            output,
            lambda: encode_corpus(
                [shards],
                EncoderSource().open,
                output / "encoded",
                engine=engine,
                show_progress_bar=True,
            ),
        )


@dataclass(frozen=True)
class Slicing:
    """The work of a worker: the slice of one tenant."""

    index: Path
    output: Path

    def open(self) -> Callable[[ShardPart], None]:
        return self._cut

    def _cut(self, part: ShardPart) -> None:
        tenant = TENANTS[part.number]
        sdk.slice_index(self.index, {"tenant": tenant}, self.output / tenant)
        part.folder.mkdir()  # done


def slices(output: Path, engine: Engine) -> None:
    """Cut every tenant's slice on Ray; a worker is killed when one is there."""
    if (output / "slices").exists():
        return
    building = output / "slices.building"
    building.mkdir(exist_ok=True)
    every = [str(output / "index" / "index.json")] * len(TENANTS)
    with open_parts(output / "slices", every, {}) as parts:
        with killing(output, "slice", parts[0].folder.parent, 1):
            work = Slicing(output / "index", building)
            step("slice", output, lambda: run_parts(parts, work, engine, "slice", show=True))
        building.rename(output / "slices")


def step(name: str, output: Path, run: Callable[[], object]) -> None:
    """Add the seconds that it takes to those of earlier runs, also where it does not end well."""
    file = output / "seconds.json"
    start = time.perf_counter()
    try:
        run()
    finally:
        found = json.loads(file.read_text()) if file.exists() else {}
        found[name] = found.get(name, 0.0) + time.perf_counter() - start
        write_atomic(file, json.dumps(found))
        print(f"{name}: {found[name]:.0f} s", flush=True)


@contextmanager
def killing(output: Path, name: str, parts: Path, least: int) -> Iterator[None]:
    """Kill a worker once, in the middle of a shard, when so many parts are there."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_SECONDS_BETWEEN):
            done = {one.name for one in parts.glob("part-*")}
            busy = [one.name.split(".")[1] for one in parts.glob(".part-*.tmp")]
            if len(done) < least or (name == "encode" and not busy):
                continue
            time.sleep(1)  # into the shard
            for worker in psutil.Process().children(recursive=True):
                if worker.name().startswith("ray::") and "Worker" in " ".join(worker.cmdline()):
                    worker.send_signal(signal.SIGKILL)
                    found = {"pid": worker.pid, "parts_done": len(done), "shard": (busy or [""])[0]}
                    file = output / "killed.json"
                    killed = json.loads(file.read_text()) if file.exists() else {}
                    write_atomic(file, json.dumps(killed | {name: found}))
                    print(f"killed worker {worker.pid} after {len(done)} parts", flush=True)
                    return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def local(shards: Path, output: Path, part: str, each: int) -> dict[str, Any]:
    """The shard of the killed worker once more, by the local engine: its bytes, its speed."""
    shard = sorted(shards.glob("*.jsonl"))[int(part.removeprefix("part-"))]
    start = time.perf_counter()
    encode_corpus([shard], EncoderSource().open, output / "local")
    seconds = time.perf_counter() - start
    files = output / "local" / "part-000000", output / "encoded" / part
    hashes = {sha256_file(folder / "documents.parquet") for folder in files}
    return {"equal_bytes": len(hashes) == 1, "local_per_second": each / seconds}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
