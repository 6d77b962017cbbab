"""Passages that a student of many languages learns to rank, one a line.

    python research/studies/passages.py --data FOLDER [--pages 6000] [--manual FOLDER] > FILE

Beginnings, of 400 characters, of pages of English Wikipedia (none that SQuAD asks about) and of a
manual, each page in one language alone (Debian's ``libreoffice-help-*``, unpacked; FOLDER is their
``usr/share/libreoffice/help``).
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from language_journey.manual import deal, read_manual

PASSAGE = 400  # characters
LEAST = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pages", type=int, default=6000, help="of Wikipedia")
    parser.add_argument("--manual", type=Path)
    options = parser.parse_args()
    texts = list(wikipedia(options.data, options.pages))
    texts += manual(options.manual) if options.manual else []
    for text in dict.fromkeys(" ".join(text.split())[:PASSAGE].strip() for text in texts):
        if len(text) >= LEAST:
            print(text)


def wikipedia(data: Path, pages: int) -> Iterator[str]:
    with lzma.open(data / "enwiki_pages" / "pages.jsonl.xz", "rt", encoding="utf-8") as file:
        for page in islice(file, pages):
            yield json.loads(page)["paragraphs"][0]["text"]


def manual(folder: Path) -> Iterator[str]:
    own = {"en-US": "en", "zh-CN": "zh"}
    languages = [own.get(one.name, one.name) for one in folder.iterdir() if (one / "text").is_dir()]
    pages = read_manual(folder, sorted(languages))
    for language, names in deal(pages, 0).training.items():
        for name in names:
            page = pages[language][name]
            yield " ".join([page.title, *page.paragraphs])


if __name__ == "__main__":
    main()
