"""An encoder of many languages made from a manual, and what it is worth in each of them.

    python research/studies/languages.py --manual FOLDER [--data FOLDER] [--output FOLDER]

``--manual`` is ``usr/share/libreoffice/help`` of Debian's packages ``libreoffice-help-*``, unpacked
(``apt-get download libreoffice-help-de``, ``dpkg-deb -x``): the same pages in each language. They
are dealt to the languages, so that nothing that is trained on is parallel. Six lines of the shell
(language_journey/lines.py) make a vocabulary, an encoder of four layers by masked words, CCP on top
of it, a light query encoder and its int8 bundle. Shift and scale, and a rotation, are fitted on
pages that the language was not dealt. Beside these stand BM25, the encoder as it was drawn and
Auto-MLM, with as many steps as CCP, over turns that are a page's sentences.

The tests, by language: language_journey/sets.py. Retrieval is scored by nDCG@10, the others by
accuracy, with intervals of 95 % over the queries. No figure has to be reached: they are written to
research/results/languages.json, and the tables of research/languages.md are made of them
(``--page`` does only that). What was made is kept in ``--output``; killed and started again, the
benchmark goes on. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from language_journey.encoders import SYSTEMS, Encoders
from language_journey.lines import LINES, run_lines, spent
from language_journey.manual import Page, deal, read_manual, read_pages, write_pages
from language_journey.page import with_tables
from language_journey.scoring import Scores, figures, score
from language_journey.sets import TESTS, Test, tests_of
from study_results import figures_of, store

from pocketquery import sdk
from pocketquery.sdk.files import write_atomic
from pocketquery.server.corpus import split_sentences
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.presets import new_encoder

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("en", "de", "es", "it", "ja", "nl", "ru", "tr", "vi", "zh")
PAGE = ROOT / "research" / "languages.md"
HELD_OUT = 200  # pages
ASKED = 5  # sentences of a page that stand for queries
SHOWN = ("bm25", "random", "mlm", "ccp", "ccp_calibrated", "bundle")


def main() -> int:
    arguments = parse_arguments()
    if arguments.page:
        write_page()
        return 0
    work: Path = arguments.output
    prepare(arguments.manual, arguments.languages, work)
    run_lines(work)
    found = {
        "languages": list(arguments.languages),
        "lines": {name: f"pocketquery {line}" for name, line in LINES.items()},
        "processor_seconds": spent(work),
        "made": made(work),
        **evaluate(arguments.data, arguments.languages, work),
    }
    show(found["tests"])
    store("languages", found)
    write_page()
    print(json.dumps(found))
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    data = Path(os.environ.get("POCKETQUERY_DATA") or ROOT / "data")
    parser.add_argument("--manual", type=Path, help="needed until its pages were read")
    parser.add_argument(
        "--data", type=Path, default=data, help="default: POCKETQUERY_DATA, or data"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "languages")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, metavar="CODE")
    parser.add_argument("--page", action="store_true", help="only write the tables of the page")
    return parser.parse_args()


def prepare(manual: Path | None, languages: Sequence[str], work: Path) -> None:
    """Write the pages of every part and language, and a corpus of those that are trained on."""
    last = work / "corpus.jsonl"
    if last.is_file():
        return
    if manual is None:
        raise SystemExit("the manual's pages were not read yet; name its folder with --manual")
    print(f"reading {manual}", flush=True)
    pages = read_manual(manual, languages)
    split = deal(pages, HELD_OUT)
    for language, own in pages.items():
        for part, names in (
            ("texts", split.training[language]),
            ("unseen", split.unseen[language]),
            ("held_out", split.held_out),
        ):
            write_pages([own[name] for name in names], language, work / part / f"{language}.jsonl")
    learnt = [pages[one][name] for one in languages for name in split.training[one]]
    asked = [text for page in learnt for text in query_like(page)]
    rows = (f"{number}\t{text}\n" for number, text in enumerate(asked))
    write_atomic(work / "queries.tsv", "".join(rows))
    texts = ((work / "texts" / f"{one}.jsonl").read_text("utf-8") for one in languages)
    write_atomic(last, "".join(texts))


def query_like(page: Page) -> list[str]:
    """What a student learns from: the title, and how the first paragraphs begin."""
    return [page.title, *(split_sentences(text)[0] for text in page.paragraphs[:ASKED])]


def write_page() -> None:
    """Write the page's tables of what is stored."""
    tables = with_tables(PAGE.read_text("utf-8"), figures_of("languages"))
    write_atomic(PAGE, tables)


def made(work: Path) -> dict[str, Any]:
    """The training texts, and the result."""
    pages = {path.stem: read_pages(path) for path in sorted((work / "texts").glob("*.jsonl"))}
    encoder = SentenceEncoder.load(work / "encoder")
    return {
        "pages": {language: len(own) for language, own in pages.items()},
        "bytes": {language: sum(page.size for page in own) for language, own in pages.items()},
        "parameters": sum(parameter.numel() for parameter in encoder.parameters()),
        "dimension": encoder.dimension,
        "bundle_bytes": sum(file.stat().st_size for file in (work / "bundle").iterdir()),
    }


def evaluate(data: Path, languages: Sequence[str], work: Path) -> dict[str, Any]:
    """Every test in every language: figures by test and language."""
    pages = {one: read_pages(work / "held_out" / f"{one}.jsonl") for one in languages}
    tests = {one: list(tests_of(data, pages, one)) for one in languages}
    encoders = encoders_of(work, list(chain.from_iterable(tests.values())))
    found: dict[str, dict[str, Any]] = {name: {} for name in TESTS}
    for language, own in tests.items():
        for test in own:
            print(f"{language} {test.name}: {len(test.queries)} queries", flush=True)
            scores = {one: kept_scores(work, test, one, encoders) for one in systems_of(test)}
            found[test.name][language] = figures(test, scores)
    return {"calibrated_on": encoders.fitted_on, "tests": found}


def kept_scores(work: Path, test: Test, system: str, encoders: Encoders) -> Scores:
    """Computed once: what a folder holds is made of the models beside it."""
    path = work / "scores" / f"{test.name}-{test.language}-{system}.json"
    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, json.dumps(score(test, system, encoders).round(6).tolist()))
    return np.array(json.loads(path.read_text("utf-8")), dtype=np.float64)


def systems_of(test: Test) -> list[str]:
    """A bundle encodes queries: it stands beside the others where queries look for documents."""
    symmetric = test.name.startswith(("pages", "tatoeba", "xsid"))
    return [name for name in SYSTEMS if not (symmetric and name == "bundle")]


def encoders_of(work: Path, tests: Sequence[Test]) -> Encoders:
    """The models that were made, the first as it was drawn, and their calibrations."""
    mlm, auto, ccp = (SentenceEncoder.load(work / name) for name in ("base", "auto_mlm", "encoder"))
    drawn = new_encoder("mini", mlm.tokenizer, max_length=mlm.max_length).eval()
    sentences = {
        path.stem: [
            sentence
            for page in read_pages(path)
            for text in (page.title, *page.paragraphs)
            for sentence in split_sentences(text)
        ]
        for path in sorted((work / "unseen").glob("*.jsonl"))
    }
    return Encoders(
        {"random": drawn, "mlm": mlm, "auto_mlm": auto, "ccp": ccp},
        sdk.load(work / "bundle"),
        sentences,
        [text for test in tests for text in (*test.queries, *test.documents)],
        work / "vectors",
    )


def show(tests: dict[str, dict[str, Any]]) -> None:
    """One table a test: languages down, systems across."""
    for name, languages in tests.items():
        if not languages:
            continue
        metric = next(iter(languages.values()))["metric"]
        print(f"\n{f'{name}, {metric}':<26}" + "".join(f"{one:>16}" for one in SHOWN))
        for language, row in languages.items():
            cells = (row["systems"].get(one) for one in SHOWN)
            told = (f"{cell[0]:.3f}" if cell else "-" for cell in cells)
            print(f"{language:<26}" + "".join(f"{one:>16}" for one in told))
        means = (
            [row["systems"][one][0] for row in languages.values() if one in row["systems"]]
            for one in SHOWN
        )
        cells = (f"{float(np.mean(own)):.3f}" if own else "-" for own in means)
        print(f"{'mean':<26}" + "".join(f"{one:>16}" for one in cells))


if __name__ == "__main__":
    sys.exit(main())
