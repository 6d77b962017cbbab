"""Mining pairs by longest common substrings: how fast, and whether a larger corpus costs more.

    python benchmarks/mining.py

Speed: candidate pairs a second through all of mining (matching form, common substring, weights,
caps), ours against the same with a suffix automaton in plain Python, which also builds one
automaton for each text and streams the others over it. Both must mine the same pairs. The demo's
36 Wikipedia articles, in turns, in this process, after a first call that compiles.

Growth: copies of those articles, each under another substitution of letters (so that no pair is a
duplicate), are read from one file, mined, de-duplicated, shuffled and written as a store, in a
process of its own: seconds a candidate pair and peak memory, for some and for ten times as many.

Must reach: 20 times the pairs a second; time per pair at ten times the corpus at most 1.25 times;
peak memory above the interpreter's, at ten times the corpus, at most twice what sorting may hold (a
quarter of that corpus).
The last line is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from unittest import mock

from rivals import plain_automaton

from pocketquery.server.corpus import Group, read_groups, write_text_store
from pocketquery.server.corpus.mining import lcs_pairs
from pocketquery.server.corpus.mining.shuffled_groups import unique_groups
from pocketquery.server.corpus.readers.document_groups import read_document_groups
from pocketquery_demo.corpus import DATA

LEAST_SPEED = 20.0
MOST_GROWTH = 1.25
MOST_MEMORY = 2.0
TIMES = 10
MEMORY = 16 << 20  # bytes of pairs sorted at a time
CONFIG = lcs_pairs.LcsConfig()
Result = TypeVar("Result")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--articles", type=int, default=8, help="that the rival mines too")
    parser.add_argument("--repeat", type=int, default=3, help="timed turns")
    parser.add_argument("--copies", type=int, default=6, help="of the 36 articles, times 1 and 10")
    parser.add_argument("--growth-repeat", type=int, default=1, help="runs at each size")
    parser.add_argument("--mine", nargs=2, metavar=("FILE", "STORE"), help="for itself")
    options = parser.parse_args()
    if options.mine:
        print(json.dumps(mine_in_this_process(*map(Path, options.mine))))
        return 0
    speed = measure_speed(articles()[: options.articles], options.repeat)
    growth = measure_growth(options.copies, options.growth_repeat)
    took, memory = growth["time_per_pair_growth"], growth["memory_over_sorting"]
    reached = speed >= LEAST_SPEED and took <= MOST_GROWTH and memory <= MOST_MEMORY
    print(
        f"expected speed_over_plain_python >= {LEAST_SPEED}, time_per_pair_growth <= {MOST_GROWTH} "
        f"and memory_over_sorting <= {MOST_MEMORY}"
    )
    figures = {"speed_over_plain_python": speed, **growth}
    print(
        json.dumps(
            {name: round(value, 3) for name, value in figures.items()} | {"reached": reached}
        )
    )
    return 0 if reached else 1


def articles() -> list[Group]:
    """The demo's articles, their paragraphs put together, without titles."""
    parts: dict[str, list[str]] = {}
    for paragraph in read_document_groups(DATA / "corpus.jsonl.gz", lang="en"):
        article = parts.setdefault(paragraph.id.partition("#")[0], [])
        article += paragraph.texts[int(paragraph.title) :]
    return [Group(name, tuple(texts), lang="en") for name, texts in parts.items()]


def candidates(document: Group) -> int:
    """How many pairs of texts are compared in a document without a title."""
    count = len(document.texts)
    return sum(min(CONFIG.max_gap, count - 1 - first) for first in range(count))


def measure_speed(documents: list[Group], repeat: int) -> float:
    """Pairs a second of ours over those of plain Python, the median of the turns."""
    pairs = sum(map(candidates, documents))
    assert mined(documents) == with_plain_python(lambda: mined(documents)), "not the same pairs"
    ours: list[float] = []
    plain: list[float] = []
    for _ in range(repeat):
        ours.append(seconds(lambda: mined(documents)))
        plain.append(with_plain_python(lambda: seconds(lambda: mined(documents))))
    for name, times in (("ours", ours), ("plain Python", plain)):
        best = statistics.median(times)
        print(f"{name:12} {pairs / best:12,.0f} pairs/s, {1e6 * best / pairs:7.2f} us each")
    return statistics.median(slow / fast for fast, slow in zip(ours, plain, strict=True))


def mined(documents: list[Group]) -> list[Group]:
    """All pairs of all documents."""
    return list(lcs_pairs.mine_pairs(documents, CONFIG))


def with_plain_python(work: Callable[[], Result]) -> Result:
    """``work`` with the rival's automaton in the place of ours."""
    with mock.patch.object(lcs_pairs, "match_block", plain_automaton.match_block):
        return work()


def seconds(work: Callable[[], object]) -> float:
    """Processor time of ``work``: the machine may have other guests."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure_growth(copies: int, repeat: int) -> dict[str, float]:
    """Time per pair and peak memory, of ten times the corpus over one."""
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for number in (copies, TIMES * copies):
            file = Path(folder) / f"{number}.jsonl"
            pairs = write_copies(file, number)
            runs = [mine_in_a_process(file, Path(folder) / "store") for _ in range(repeat)]
            took = statistics.median(run["seconds"] for run in runs) / pairs
            memory = statistics.median(run["bytes"] for run in runs)
            print(
                f"{file.stat().st_size / 2**20:6.1f} MB, {pairs:12,} candidates, "
                f"{runs[0]['mined']:9,} mined: {1e6 * took:.3f} us a candidate, "
                f"{memory / 2**20:.1f} MB above start"
            )
            results.append((took, memory))
    (few_time, few_memory), (many_time, many_memory) = results
    return {
        "time_per_pair_growth": many_time / few_time,
        "memory_over_sorting": many_memory / MEMORY,
        "memory_growth": many_memory / few_memory,
    }


def write_copies(path: Path, copies: int) -> int:
    """Write the articles so many times, each under another cipher; the number of candidates."""
    originals = articles()
    with path.open("w", encoding="utf-8") as file:
        for number in range(copies):
            for document in enciphered(originals, number):
                file.write(json.dumps({"id": document.id, "sentences": document.texts}) + "\n")
    return copies * sum(map(candidates, originals))


def enciphered(documents: list[Group], seed: int) -> Iterator[Group]:
    """The documents with letters exchanged for others, one for one."""
    letters = random.Random(seed).sample(string.ascii_lowercase, 26)
    table = str.maketrans(string.ascii_letters, "".join(letters) + "".join(letters).upper())
    for document in documents:
        yield Group(
            f"{seed}/{document.id}", tuple(text.translate(table) for text in document.texts)
        )


def mine_in_a_process(file: Path, store: Path) -> dict[str, float]:
    """What :func:`mine_in_this_process` measures, in a fresh process."""
    command = [sys.executable, str(Path(__file__).absolute()), "--mine", str(file), str(store)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def mine_in_this_process(file: Path, store: Path) -> dict[str, float]:
    """Mine a file into a store: processor seconds, bytes above those after the imports, pairs."""
    mined([Group("warm", ("compiles or loads the kernel", "loads or compiles the kernel"))])
    before, start = peak(), time.process_time()
    pairs = lcs_pairs.mine_pairs(read_groups(file, "documents"), CONFIG)
    kept = write_text_store(store, unique_groups(pairs, 0, store, memory=MEMORY), "pairs")
    return {
        "seconds": time.process_time() - start,
        "bytes": peak() - before,
        "mined": len(kept),
    }


def peak() -> int:
    """This process's peak memory in bytes: Linux's high-water mark, which exec resets."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except FileNotFoundError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    sys.exit(main())
