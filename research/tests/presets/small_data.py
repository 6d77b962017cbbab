"""A folder with the public data sets that the recipe draws from, each of a few texts."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

__all__ = ["data_folder"]


def data_folder(
    folder: Path, *, number_of_pages: int = 60, book: str = "Cell {0} divides {{}} times."
) -> Path:
    """Pages, six of which speak of femurs, a textbook, abstracts, and what people asked."""
    pages = [
        (f"Title {page}", f"Page {page} says {{}} {'femurs' if page < 6 else 'things'} at length.")
        for page in range(number_of_pages)
    ]
    _write_pages(folder / "enwiki_pages" / "pages.jsonl.xz", pages)
    modules = [(f"Cell {i}", book.format(i)) for i in range(10)]
    _write_pages(folder / "openstax_textbooks" / "pages.jsonl.xz", modules)
    abstracts = [(f"Of gels {i}", f"We show {{}} that gel {i} stiffens.") for i in range(10)]
    _write_pages(folder / "science_pages" / "pages.jsonl.xz", abstracts)
    questions = folder / "nq_open_queries"
    _write(questions / "dev.jsonl.gz", json.dumps({"question": "who wrote it"}))
    _write(questions / "efficientqa_dev.jsonl.gz", json.dumps({"question": "when was it"}))
    _write(questions / "efficientqa_test_questions.tsv.gz", "where is it")
    _write(folder / "clinc150" / "train.tsv.gz", "domain\tintent\ttext\nbank\tpay\tpay my bill")
    turns = {"turns": [["U", "a table for two"], ["S", "said by the system"]]}
    for part in ("train", "dev"):
        _write(folder / "sgd_dialogues" / f"{part}.jsonl.gz", json.dumps(turns))
    return folder


def _write_pages(path: Path, pages: list[tuple[str, str]]) -> None:
    path.parent.mkdir(parents=True)
    with lzma.open(path, "wt", encoding="utf-8") as file:
        for title, text in pages:
            paragraphs = [
                {"section": "History", "text": f"{text.format(i)} It says so again here."}
                for i in range(4)
            ]
            file.write(json.dumps({"title": title, "paragraphs": paragraphs}) + "\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text + "\n")
