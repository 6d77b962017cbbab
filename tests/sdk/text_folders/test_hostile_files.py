"""Files from elsewhere: none keeps the others out, none takes long, none takes all memory.

What takes long is quadratic, and its texts are so long that it would take hours; what is linear
takes a second. So a test that fails is one that the limit of all tests ends, and none has a clock.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pocketquery.sdk import list_files
from pocketquery.sdk.index.documents import check_document
from pocketquery.sdk.text_folders import zipped
from pocketquery.sdk.text_folders.text_folder import read_folder
from tests.sdk.text_folders.reading import skipped, unnamed, write
from tests.sdk.text_folders.test_formats import archive

LONG = 600_000  # for patterns
MANY = 60_000  # for loops, which take longer
BLANKS = " " * LONG
HEADING = (
    '<t:h xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0" t:outline-level="{}">a</t:h>'
)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.md", f"{BLANKS}x"),
        ("a.md", f"# a{BLANKS}b"),
        ("a.md", f"|-|-{BLANKS}x"),
        ("a.md", "{{a}}" + BLANKS + "x"),
        ("a.md", "{%a%}" + BLANKS + "x"),
        ("a.md", "![a](b)![a](b)" + BLANKS + "x"),
        ("a.md", f":::{BLANKS}{{x"),
        ("a.md", f":::{BLANKS}x y"),
        ("a.md", f"---\na{BLANKS}b\n---\nx"),
        ("a.md", "---\ntitle: " + "*a " * 20_000 + "\n---\nx"),
        ("a.md", "# " + "*a " * (LONG // 3)),
        ("a.md", "# x" + BLANKS + "{"),
        ("a.md", '{{a("' + '","' * 2_600),
        ("a.txt", "# a" + "#" * LONG + "b"),
        ("a.txt", f"# a{BLANKS}b"),
        ("a.html", "<!--" * MANY),
        ("a.html", "<a " * MANY),
        ("a.html", "<nav>" + "<a>" * MANY + "</b>" * MANY),
        ("a.html", "<title>" + "a<!---->" * 4 * MANY),
        ("a.csv", "a," * MANY + "\n" + "a\n" * MANY),
        ("a.eml", "Content-Type: " + ";" * MANY + "\n\nx"),
        ("a.eml", "To: " + '"' * MANY + "\n\nx"),
    ],
)
def test_no_text_takes_long(tmp_path: Path, name: str, data: str) -> None:
    write(tmp_path, name, data)
    reasons, _ = skipped(tmp_path)
    assert reasons.keys() <= {name}


def notebook(**cell: object) -> str:
    return json.dumps({"cells": [{"source": "a \ud800 b", **cell}]})


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.ipynb", notebook(cell_type="heading", level="x")),
        ("a.ipynb", notebook(cell_type="code", outputs=True)),
        ("a.ipynb", notebook(cell_type="markdown")),
        ("a.odt", archive(**{"content.xml": HEADING.format("²")})),
        ("a.eml", b"Content-Type: message/rfc822\n\n" * 2_000),
        ("a.eml", b"Content-Type: text/plain; charset=utf-7\n\n+2AA- x"),
        ("a.eml", b"Content-Type: text/plain; charset=unicode_escape\n\nabc \\ud800 d"),
        ("a.html", b'<meta charset="unicode_escape">\\ud800 \xe9\xe9x'),
        ("a.md", '---\ntitle: "\\ud800"\n"\\ud800": a\n---\nx'),
        ("a.md", "+++\na=0x" + "9" * 4_000 + "\n+++\nx"),
    ],
)
def test_no_file_keeps_the_others_out(tmp_path: Path, name: str, data: str | bytes) -> None:
    write(tmp_path, name, data)
    write(tmp_path, "b.txt", "another")
    documents = list(read_folder(tmp_path))
    assert unnamed(documents[-1]) == "another"
    for document in documents:
        check_document(document)


def test_headings_within_headings_end(tmp_path: Path) -> None:
    cells = [{"cell_type": "heading", "level": n, "source": f"h{n}"} for n in range(1, 100)]
    write(tmp_path, "a.ipynb", json.dumps({"cells": cells}))
    assert max(len(one.metadata["headings"]) for one in read_folder(tmp_path)) == 20


def test_a_chapter_that_is_named_many_times_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipped, "_MOST_BYTES", 1 << 20)
    parts = {
        "META-INF/container.xml": '<a xmlns="c"><rootfile full-path="p.opf"/></a>',
        "p.opf": '<a xmlns="p"><item id="c" href="c.html"/>'
        + '<itemref idref="c"/>' * 1000
        + "</a>",
        "c.html": "<p>" + "word " * 1000,
    }
    write(tmp_path, "a.epub", archive(**parts))
    assert "of parts" in skipped(tmp_path)[0]["a.epub"]


def test_elements_without_number_are_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipped, "_MOST_ELEMENTS", 1000)
    write(tmp_path, "a.odt", archive(**{"content.xml": "<a>" + "<b/>" * 1000 + "</a>"}))
    assert "elements" in skipped(tmp_path)[0]["a.odt"]


def test_patterns_of_a_gitignore_neither_take_long_nor_fail(tmp_path: Path) -> None:
    write(tmp_path, "a" * 200 + ".txt", "x")
    write(tmp_path, "mine_of_my_own.txt", "x")
    write(tmp_path, ".gitignore", "a*" * 8 + "b\n[z-a]\n" + "*" * 40 + "b\nm*_*_*_*n.t*\n")
    names = [file.name for file in list_files(tmp_path).files]
    assert names == ["a" * 200 + ".txt"]
