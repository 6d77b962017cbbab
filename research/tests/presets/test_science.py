from __future__ import annotations

import csv
import hashlib
import io
import json
import lzma
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery_research.presets import science
from research.tests.presets.clones import commit, new_clone

LONG = "Cells that divide by binary fission make two copies of what they were before they began."
ANSWERS = """<Document><Focus> Fission </Focus><QAPairs>
<QAPair><Question qtype="genetic changes">What are they?</Question><Answer>{long}
    Too short.  - {long} Twice.
    These resources address the diagnosis or management of whatever it is that a person may have:
</Answer></QAPair>
<QAPair><Question qtype="treatment">Is there one?</Question></QAPair></QAPairs></Document>"""


@pytest.fixture
def fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(science, "FIELDS", {"20200101": ["q-bio.CB", "q-bio.SC"]})


def _archive(folder: Path, **tables: list[tuple[str, str, str]]) -> Path:
    files: dict[str, bytes] = {}
    for field, rows in tables.items():
        text = io.StringIO()
        table = csv.writer(text, delimiter="\t", lineterminator="\n")
        table.writerow(["", "abstract", "arxiv_id", "title"])
        for number, (paper, title, abstract) in enumerate(rows):
            table.writerow([number, abstract, paper, title])
        name = f"processed_data/20200101/per_category/q-bio.{field}.tsv.xz"
        files[name] = lzma.compress(text.getvalue().encode())
    return _clone(folder / "arxiv_archive", files)


def _medquad(folder: Path, files: Mapping[str, str]) -> Path:
    return _clone(folder / "MedQuAD", {name: text.encode() for name, text in files.items()})


def _clone(folder: Path, files: Mapping[str, bytes]) -> Path:
    commit(new_clone(folder), files)
    return folder


def _titles(pages: Any) -> list[str]:
    return [page["title"] for page in pages]


@pytest.mark.usefixtures("fields")
def test_a_paper_is_read_once_and_not_where_it_has_formulas(tmp_path: Path) -> None:
    archive = _archive(
        tmp_path,
        CB=[
            ("1", "Fission", LONG),
            ("2", "Of $n$ cells", LONG),
            ("3", "Growth", LONG + r" In \emph{rich} media."),
            ("4", "Short", "Withdrawn."),
        ],
        SC=[("1", "Fission", LONG), ("5", "Two  lines", LONG.replace(" two ", "\ntwo "))],
    )
    found = list(science.papers(archive))
    assert _titles(found) == ["Fission", "Two lines"]
    assert [page["paragraphs"] for page in found] == [[{"section": "", "text": LONG}]] * 2


@pytest.mark.usefixtures("fields")
def test_papers_that_a_test_set_holds_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(b"fission").hexdigest()[:16]
    monkeypatch.setattr(science, "EXCLUDED", {digest})
    archive = _archive(tmp_path, CB=[("1", "FISSION", LONG), ("2", "Growth", LONG)], SC=[])
    assert _titles(science.papers(archive)) == ["Growth"]


def test_the_excluded_are_hashes_and_so_many() -> None:
    assert len(science.EXCLUDED) == 11
    assert all(int(one, 16) >= 0 and len(one) == 16 for one in science.EXCLUDED)


def test_answers_are_paragraphs_below_what_is_asked(tmp_path: Path) -> None:
    quad = _medquad(
        tmp_path,
        {
            "3_GHR_QA/1.xml": ANSWERS.format(long=LONG),
            "11_MPlusDrugs_QA/1.xml": ANSWERS.format(long=LONG),
            "readme.txt": "no answers",
        },
    )
    assert list(science.answers(quad)) == [
        {
            "title": "Fission",
            "paragraphs": [
                {"section": "genetic changes", "text": LONG},
                {"section": "genetic changes", "text": f"{LONG} Twice."},
            ],
        }
    ]


@given(st.text(st.sampled_from("ab -\n\t.") | st.characters(exclude_categories=["Cs", "Cc"])))
def test_paragraphs_are_long_and_of_single_spaces(answer: str) -> None:
    found = list(science.paragraphs(answer + "\n" + LONG))
    assert found[-1].endswith(LONG)
    for text in found:
        assert len(text) >= 80
        assert text == " ".join(text.split())


@pytest.mark.usefixtures("fields")
def test_the_command_writes_both(tmp_path: Path) -> None:
    archive = _archive(tmp_path, CB=[("1", "Papers", LONG)], SC=[])
    quad = _medquad(tmp_path, {"9_CDC_QA/1.xml": ANSWERS.format(long=LONG)})
    output = tmp_path / "science_pages"
    named = ["--arxiv", str(archive), "--medquad", str(quad), "--output", str(output)]
    assert science.main(named) == 0
    lines = lzma.decompress((output / "pages.jsonl.xz").read_bytes()).decode().splitlines()
    assert _titles(map(json.loads, lines)) == ["Papers", "Fission"]


@pytest.mark.usefixtures("fields")
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"readme.txt": "nothing"}, r"MedQuAD has no answers"),
        ({"9_CDC_QA/1.xml": "<Document>"}, r"9_CDC_QA/1\.xml is no XML .*; expected MedQuAD"),
    ],
)
def test_what_is_not_medquad_is_refused(
    tmp_path: Path, files: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = _archive(tmp_path, CB=[("1", "Papers", LONG)], SC=[])
    quad = _medquad(tmp_path, files)
    output = tmp_path / "science_pages"
    named = ["--arxiv", str(archive), "--medquad", str(quad), "--output", str(output)]
    assert science.main(named) == 1
    printed = capsys.readouterr().err
    assert re.search(said, printed), printed
    assert not output.exists()


@pytest.mark.usefixtures("fields")
@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "is no clone that can be read"),
        (b"text", r"q-bio\.CB\.tsv\.xz is no table of papers .*; expected arxiv_archive"),
        (lzma.compress(b"a\tb\n1\t2\n"), r"is no table of papers \('title'\)"),
    ],
)
def test_what_is_not_the_archive_is_refused(
    tmp_path: Path, table: bytes | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "readme" if table is None else "processed_data/20200101/per_category/q-bio.CB.tsv.xz"
    other = str(_clone(tmp_path / "other", {name: table or b"nothing"}))
    output = str(tmp_path / "out")
    assert science.main(["--arxiv", other, "--medquad", other, "--output", output]) == 1
    printed = capsys.readouterr().err
    assert re.search(said, printed), printed
