"""Papers' abstracts and answers about health as plain paragraphs, from two clones.

    git clone --bare https://github.com/staeiou/arxiv_archive
    git clone --bare https://github.com/abachaa/MedQuAD
    python -m pocketquery_research.presets.science --arxiv arxiv_archive.git \\
        --medquad MedQuAD.git --output DATA/science_pages

What a field calls its things stands in its papers' abstracts. arXiv gives its metadata, titles and
abstracts among them, under CC0 1.0; R. Stuart Geiger's archive holds those up to 2019. MedQuAD
(Ben Abacha and Demner-Fushman, "A Question-Entailment Approach to Question Answering", BMC
Bioinformatics 2019; CC BY 4.0) holds the answers of the US National Institutes of Health. One JSON
a page: title, paragraphs (list of section, text), as ``enwiki_pages`` has them.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.presets.clones import FILE, git, write_pages

__all__ = ["EXCLUDED", "FIELDS", "answers", "main", "papers", "paragraphs"]

FIELDS = {
    "20200101": (
        "chem-ph cs.AR cs.CR cs.CY cs.DB cs.DC cs.DL cs.FL cs.GR cs.HC cs.IR cs.MS cs.NE cs.NI "
        "cs.OS cs.PF cs.PL cs.RO cs.SC cs.SE cs.SI cs.SY econ.GN eess.SP physics.ao-ph "
        "physics.app-ph physics.bio-ph physics.class-ph physics.geo-ph physics.med-ph "
        "q-bio.BM q-bio.CB q-bio.GN q-bio.MN q-bio.NC q-bio.OT q-bio.PE q-bio.QM "
        "q-bio.SC q-bio.TO stat.AP stat.ME"
    ).split(),
    "20190101": ["cs.DS", "physics.flu-dyn", "physics.soc-ph"],
}
"""Of each of the archive's dates the categories that are read: fields whose readers search."""

EXCLUDED = set(
    """
0ca5e08963b57091 691b1b5d07df8770 700f9ef631c7a69e 97e6610018947341 a76f437cda9aff7f
aba4cb6f70ecb465 ac0471b7d04f80a7 c5704afcba2d5e46 e48d93fcf481c9c6 e9f87809bae26d22
f3fd53795e286f46
""".split()
)
"""Titles, hashed, of papers whose abstracts SciFact has among its documents: it stays a test."""

_FORMULA = ("$", "\\", "^{", "_{")  # who searches does not type them
_SHORTEST = 80  # characters of a paragraph: below are headings and items of lists
_WITHOUT_ANSWERS = ("10_MPlus_ADAM_QA/", "11_MPlusDrugs_QA/", "12_MPlusHerbsSupplements_QA/")
_LINKS = "These resources"  # begins what is a list of links


def main(arguments: list[str] | None = None) -> int:
    """The command line of the docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arxiv", type=Path, required=True, help="clone, bare or not")
    parser.add_argument("--medquad", type=Path, required=True, help="likewise")
    parser.add_argument("--output", type=Path, required=True, help=f"folder; gets {FILE}")
    options = parser.parse_args(arguments)
    try:
        abstracts = list(papers(options.arxiv))
        print(f"{options.arxiv}: {len(abstracts):,} papers", flush=True)
        health = list(answers(options.medquad))
        if not health:
            raise InvalidInputError(f"{options.medquad} has no answers; expected MedQuAD")
        print(f"{options.medquad}: {len(health):,} topics", flush=True)
        write_pages(options.output, [*abstracts, *health])
    except InvalidInputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def papers(clone: Path) -> Iterator[dict[str, Any]]:
    """A page for each paper of :data:`FIELDS` without formulas, the first time it is met.

    Raises:
        InvalidInputError: ``clone`` is not that archive.
    """
    met = set[str]()
    for date, fields in FIELDS.items():
        for field in fields:
            name = f"processed_data/{date}/per_category/{field}.tsv.xz"
            for paper, title, abstract in _rows(clone, name):
                if (
                    paper in met
                    or len(abstract) < _SHORTEST
                    or any(sign in part for sign in _FORMULA for part in (title, abstract))
                    or hashlib.sha256(title.lower().encode()).hexdigest()[:16] in EXCLUDED
                ):
                    continue
                met.add(paper)
                yield {"title": title, "paragraphs": [{"section": "", "text": abstract}]}


def _rows(clone: Path, name: str) -> Iterator[tuple[str, str, str]]:
    """``(paper, title, abstract)``, without line breaks."""
    packed = git(clone, "show", f"HEAD:{name}")
    try:
        table = lzma.decompress(packed).decode("utf-8")
        for row in csv.DictReader(io.StringIO(table), delimiter="\t"):
            title, abstract = (" ".join(row[key].split()) for key in ("title", "abstract"))
            yield row["arxiv_id"], title, abstract
    except (lzma.LZMAError, UnicodeDecodeError, csv.Error, KeyError, AttributeError) as error:
        raise InvalidInputError(
            f"{clone}: {name} is no table of papers ({error}); expected arxiv_archive"
        ) from error


def answers(clone: Path) -> Iterator[dict[str, Any]]:
    """A page for each topic; its sections are what is asked of it ("genetic changes").

    Raises:
        InvalidInputError: ``clone`` is not MedQuAD.
    """
    for name in git(clone, "ls-tree", "-r", "--name-only", "HEAD").decode().splitlines():
        if not name.endswith(".xml") or name.startswith(_WITHOUT_ANSWERS):
            continue
        try:
            root = ElementTree.fromstring(git(clone, "show", f"HEAD:{name}"))
        except ElementTree.ParseError as error:
            raise InvalidInputError(
                f"{clone}: {name} is no XML ({error}); expected MedQuAD"
            ) from error
        found = [
            {"section": question.get("qtype", ""), "text": text}
            for pair in root.iter("QAPair")
            if (question := pair.find("Question")) is not None
            for text in paragraphs(pair.findtext("Answer") or "")
        ]
        if found:
            yield {"title": (root.findtext("Focus") or "").strip(), "paragraphs": found}


def paragraphs(answer: str) -> Iterator[str]:
    """Its long lines and, where pages were flattened, what stands between two or more spaces."""
    for line in answer.replace("  ", "\n").splitlines():
        text = " ".join(line.split()).removeprefix("- ")
        if len(text) >= _SHORTEST and not text.startswith(_LINKS):
            yield text


if __name__ == "__main__":
    sys.exit(main())
