"""Does search find what people type, in the files they have?

    python benchmarks/finding.py [--quick] [--store] [--misses FILE] [--bundle FOLDER]

Asked are small cases of seventeen kinds (finding_parts/words.json), identifiers of two
documentations, the version numbers of 351 release notes and the descriptions of 69 pages of a
help vault, forty queries that nothing there answers, and nine judged collections; then a folder of
2,000 files is changed and updated. Other pipelines answer the vault's queries in the same run.
What must be reached is the row ``finding`` of suite/table.py; figures named ``over_start`` are
differences from, or ratios to, finding_parts/start.json, which has those before words were whole
and scores absolute. ``--quick`` leaves out collections, update and rivals. ``--misses`` writes each
query that missed, and what it got. The last line is one JSON object; the exit status is 1 where a
figure is missed.
"""

from __future__ import annotations

import os

os.environ.update({"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})

import argparse
import json
import lzma
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from finding_parts import asked, judged
from finding_parts.documentation import DOCUMENTATIONS, descriptions, without_descriptions
from quality_sets import data_folder
from rivals.environment import pipelines_python
from suite.results import store
from suite.table import LEFT_OUT

from pocketquery import sdk
from pocketquery.server.modeling import SentenceEncoder

Figures = dict[str, Any]
START = Path(__file__).parent / "finding_parts" / "start.json"
FILES = 2000  # of the folder that is updated


def main() -> int:
    options = parse_arguments()
    data = data_folder(options.data)
    if lacking := [name for name in DOCUMENTATIONS if not (data / name).is_dir()]:
        raise SystemExit(
            f"{data} lacks {', '.join(lacking)}; run: benchmarks/finding_parts/documentation.py"
        )
    started = time.monotonic()
    misses: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as place:
        figures = measure(data, Path(place), options, misses)
    if options.misses:
        Path(options.misses).write_text("\n".join(misses) + "\n", "utf-8")
    if options.start:
        START.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
        return 0
    start = {} if options.quick else json.loads(START.read_text("utf-8"))
    figures["over_start"] = over_start(figures, start)
    (row,) = (one for one in LEFT_OUT if one.name == "finding")
    held = [figure for threshold in row.thresholds for figure in threshold.compared(figures)]
    figures["missed"] = [
        f"{one.figure} is {one.found}, must be {one.bound} {one.value}"
        for one in held
        if not one.reached and not (one.found is None and (options.quick or options.no_rivals))
    ]
    for miss in figures["missed"]:
        print(f"MISSED: {miss}")
    if options.store:
        store("finding", figures, time.monotonic() - started)
    print(json.dumps(figures))
    return 1 if figures["missed"] else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    parser.add_argument("--bundle", help="default: the built-in encoder")
    parser.add_argument("--quick", action="store_true", help="the documentations alone")
    parser.add_argument("--no-rivals", action="store_true", help="no other pipelines")
    parser.add_argument("--misses", metavar="FILE", help="where to write what was not found")
    parser.add_argument("--store", action="store_true", help="store the figures in docs/results")
    parser.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(data: Path, work: Path, options: argparse.Namespace, misses: list[str]) -> Figures:
    """All figures, in the order of the table."""
    encoder = sdk.load(options.bundle)
    vault = without_descriptions(data / "obsidian_help", work / "vault")
    folders = {"flask": data / "flask_docs", "jupyter": data / "jupyter_server_docs"}
    by_description = descriptions(data / "obsidian_help")
    questions = {
        "descriptions": [(text, {path}) for path, text in by_description.items()],
        "versions": list(asked.versions(vault).items()),
    }
    figures: Figures = {"words": asked.words(encoder, misses), "folders": {}}
    with ExitStack() as opened:
        indexes = {}
        for name, folder in (folders | {"pages": vault / "en", "vault": vault}).items():
            figures["folders"][name] = indexed(folder, work / f"{name}-index", options.bundle)
            opening = sdk.open_index(work / f"{name}-index", encoder=encoder)
            indexes[name] = opened.enter_context(opening)
        index, pages = indexes.pop("vault"), indexes.pop("pages")
        figures["identifiers"] = asked.identifiers(indexes, misses)
        figures["ours"] = ask_ours(index, questions, figures["folders"]["vault"], misses)
        related = list(by_description.values())
        wanted = [(text, {path.removeprefix("en/")}) for path, text in by_description.items()]
        figures["pages"] = asked.descriptions(by(pages, "hybrid"), wanted, "pages", misses)
        figures["unrelated"] = asked.unrelated(pages, related)
        figures["independence"] = asked.independence(pages, related[:20], misses)
    shown(figures)
    if not options.quick:
        figures["update"] = update(data, work)
        teacher = SentenceEncoder.load("demo")
        figures["five"] = judged.five(data, encoder, teacher, work)
        figures["xquad"] = judged.xquad(data, work)
        if not options.no_rivals:
            figures["rivals"] = ask_rivals(vault, questions, work)
        shown(
            {
                name: figures[name]
                for name in ("update", "five", "xquad", "rivals")
                if name in figures
            }
        )
    return figures


def indexed(folder: Path, path: Path, bundle: str | None) -> Figures:
    """Index a folder by the command; seconds of processor and clock, passages and bytes."""
    words = ["index", "--documents", str(folder), "--output", str(path), "--symmetric"]
    cpu, clock = command(*words, *(["--bundle", bundle] if bundle else []))
    with sdk.open_index(path) as index:
        passages = len(index)
    size = sum(file.stat().st_size for file in path.iterdir())
    return {"cpu_s": cpu, "index_s": clock, "passages": passages, "bytes": size}


def command(*words: str) -> tuple[float, float]:
    """Run a command of pocketquery; seconds of processor and of clock."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    program = Path(sys.executable).with_name("pocketquery")
    done = subprocess.run([str(program), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pocketquery {' '.join(words)}: {done.stderr.strip()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - began


def by(index: sdk.Index, mode: Any) -> asked.Searched:
    """Searching it for the paths of passages."""
    return lambda query: [
        str(hit.metadata["path"]) for hit in index.search(query, asked.DEPTH, mode=mode)
    ]


def ask_ours(
    index: sdk.Index, questions: Mapping[str, Any], building: Figures, misses: list[str]
) -> Figures:
    """Both kinds of questions in hybrid and by words; time to index and to search."""
    figures: Figures = {"index_s": building["index_s"]}
    for name, wanted in questions.items():
        figures[name] = asked.descriptions(by(index, "hybrid"), wanted, name, misses)
        figures[f"{name}_words"] = asked.descriptions(by(index, "lexical"), wanted, "", [])
    queries = [query for wanted in questions.values() for query, _ in wanted]
    began = time.perf_counter()
    for query in queries:
        index.search(query, asked.DEPTH)
    figures["search_ms"] = (time.perf_counter() - began) / len(queries) * 1e3
    figures["mrr"] = together(figures, questions)
    return figures


def together(figures: Figures, questions: Mapping[str, Any]) -> float:
    counts = {name: len(wanted) for name, wanted in questions.items()}
    return float(sum(figures[n]["mrr"] * counts[n] for n in counts) / sum(counts.values()))


def ask_rivals(vault: Path, questions: Mapping[str, Any], work: Path) -> Figures:
    """The same folder and questions, answered by each of rivals/search_pipelines.py."""
    queries = [query for wanted in questions.values() for query, _ in wanted]
    (work / "questions.json").write_text(json.dumps(queries), "utf-8")
    script = Path(__file__).parent / "rivals" / "search_pipelines.py"
    files = [str(vault), str(work / "questions.json"), str(work / "answers.json")]
    subprocess.run([str(pipelines_python()), str(script), *files], check=True)
    answers = json.loads((work / "answers.json").read_text("utf-8"))
    rivals: Figures = {}
    for rival, answer in answers.items():
        by_query = dict(zip(queries, answer.pop("paths"), strict=True))
        for name, wanted in questions.items():
            answer[name] = asked.descriptions(by_query.__getitem__, wanted, "", [])
        rivals[rival] = answer | {"mrr": together(answer, questions)}
    return rivals


def update(data: Path, work: Path) -> Figures:
    """One file of 2,000 edited, one renamed, one deleted: processor seconds of ``--update``."""
    folder = work / "notes"
    folder.mkdir()
    with lzma.open(data / "enwiki_pages" / "pages.jsonl.xz", "rt", encoding="utf-8") as lines:
        for number, line in zip(range(FILES), lines, strict=False):
            page = json.loads(line)
            text = "\n\n".join(paragraph["text"] for paragraph in page["paragraphs"][:3])
            (folder / f"{number}.md").write_text(f"# {page['title']}\n\n{text}\n", "utf-8")
    words = ["index", "--documents", str(folder), "--output", str(work / "notes-index")]
    built, _ = command(*words, "--symmetric")
    (folder / "7.md").write_text("# Note 7\n\nThe pomegranate was pruned in March.\n", "utf-8")
    (folder / "8.md").rename(folder / "eight.md")
    (folder / "9.md").unlink()
    try:
        cpu, _ = command(*words, "--symmetric", "--update")
    except SystemExit as error:
        return {"files": FILES, "built_cpu_s": built, "problem": str(error)[:200]}
    return {"files": FILES, "built_cpu_s": built, "cpu_s": cpu}


def over_start(figures: Figures, start: Figures) -> Figures:
    """Differences of nDCG from the start's, and the ratio of sizes."""
    if "five" not in figures:
        return {}
    now, then = figures["five"], start["five"]
    difference = {
        kind: {name: now[kind][name] - then[kind][name] for name in then[kind]}
        for kind in ("teacher", "symmetric", "words")
    }
    means = {kind: float(np.mean(list(values.values()))) for kind, values in difference.items()}
    sizes = sum(now["bytes"].values()) / sum(then["bytes"].values())
    a_passage = [
        {name: row["bytes"] / row["passages"] for name, row in one["folders"].items()}
        for one in (figures, start)
    ]
    folders = {name: a_passage[0][name] / each for name, each in a_passage[1].items()}
    rivals = figures.get("rivals", {})
    above = {name: figures["ours"]["mrr"] - row["mrr"] for name, row in rivals.items()}
    return {"ndcg": difference, "mean": means, "bytes": sizes, "passage_bytes": folders,
            "mrr_above_rivals": above}  # fmt: skip


def shown(figures: Any, name: str = "") -> None:
    """Print the figures, a line each."""
    if isinstance(figures, dict):
        for key, value in figures.items():
            shown(value, f"{name}/{key}".lstrip("/"))
        return
    print(f"{name:44} {figures:.3f}" if isinstance(figures, float) else f"{name:44} {figures}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
