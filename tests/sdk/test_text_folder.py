from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.index.analysis import UNSPACED
from pocketquery.sdk.text_folders.text_folder import read_folder

MARKDOWN = """---
title: "Garden notes"
---
An introduction.

# Roses

Roses want
sun.

## In winter ##
Cover them.

Pruning
-------
Cut in March.
"""
HTML = """<!doctype html><html><head><title>Water &amp; soil</title><style>p { color: red }</style>
</head><body><h1>Watering</h1><p>Water <b>early</b>.<p>Never at noon.
<script>alert("no")</script><h2>Soil</h2><ul><li>clay<li>sand</ul></body></html>"""


def _found(folder: Path, **options: object) -> list[tuple[str, str, str]]:
    return [
        (one.id, str(one.metadata["title"]), one.text)
        for one in read_folder(folder, **options)  # type: ignore[arg-type]
    ]


def test_sections_titles_and_paths(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "garden.md").write_text(MARKDOWN, encoding="utf-8")
    (tmp_path / "sub" / "water.html").write_text(HTML, encoding="utf-8")
    (tmp_path / "to_do-list.txt").write_text("buy seeds\n\nsow them", encoding="utf-8-sig")
    (tmp_path / ".hidden.txt").write_text("no", encoding="utf-8")
    assert _found(tmp_path) == [
        ("garden.md#1", "Garden notes", "An introduction."),
        ("garden.md#2", "Garden notes: Roses", "Roses want sun."),
        ("garden.md#3", "Garden notes: In winter", "Cover them."),
        ("garden.md#4", "Garden notes: Pruning", "Cut in March."),
        ("to_do-list.txt#1", "to do list", "buy seeds sow them"),
        ("sub/water.html#1", "Water & soil: Watering", "Water early. Never at noon."),
        ("sub/water.html#2", "Water & soil: Soil", "clay sand"),
    ]
    assert next(read_folder(tmp_path)).metadata == {
        "title": "Garden notes",
        "path": "garden.md",
        "part": 1,
    }


def test_one_file_is_a_folder_of_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one", encoding="utf-8")
    assert _found(tmp_path / "a.txt") == [("a.txt#1", "a", "one")]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    (tmp_path / "b.txt").write_bytes(b"caf\xe9")
    (tmp_path / "c.txt").write_bytes(b"a\0b")
    (tmp_path / "d.txt").write_text("fine", encoding="utf-8")
    os.mkfifo(tmp_path / "e.txt")
    (tmp_path / "g").symlink_to(tmp_path.parent)
    (tmp_path / "f\udce9.txt").write_text("fine, but for its name", encoding="utf-8")
    skipped = dict[str, str]()
    found = list(read_folder(tmp_path, on_skipped=lambda p, why: skipped.update({p.name: why})))
    assert [one.id for one in found] == ["d.txt#1"]
    assert skipped["f\udce9.txt"] == "its name is not UTF-8; rename it"
    assert "a .pdf file; expected one of .txt" in skipped["a.pdf"]
    assert "not utf-8 at byte 3" in skipped["b.txt"]
    assert "zero bytes" in skipped["c.txt"]
    assert skipped["e.txt"] == "no plain file"
    assert skipped["g"] == "a link to a folder; name the folder itself"


def test_an_unlistable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "a.txt").write_text("one", encoding="utf-8")
    listed = os.scandir

    def scandir(path: str) -> object:  # as for a user who is not root
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    skipped = dict[str, str]()
    found = list(read_folder(tmp_path, on_skipped=lambda p, why: skipped.update({p.name: why})))
    assert [one.id for one in found] == ["a.txt#1"]
    assert skipped == {"secret": "Permission denied"}


def test_pages_are_read_as_browsers_do(tmp_path: Path) -> None:
    icon = "<svg><title>Search icon</title><path d='M0'/></svg>"
    (tmp_path / "A.HTML").write_text(
        f"<title>My page</title>{icon}<p>Use <![label](url) here<p>if (a<![0]) x"
        "<details><summary>Why</summary>So</details><select><option>Red<option>Green</select>",
        encoding="utf-8",
    )
    # An unknown <![ is a comment, which ends with the next >.
    assert _found(tmp_path) == [("A.HTML#1", "My page", "Use if (a Why So Red Green")]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("note.md", "# Buy plane tickets to Lisbon\n", [("Buy plane tickets to Lisbon",) * 2]),
        (
            "list.md",
            "# To do\n## Renew passport\n## Call the dentist\n",
            [
                ("To do: Renew passport", "Renew passport"),
                ("To do: Call the dentist", "Call the dentist"),
            ],
        ),
        (
            "orchard.md",
            "# Orchard\nNotes.\n## Fruit trees\n### Pruning\nCut.\n### Water\nLittle.\n## Tools\n",
            [
                ("Orchard", "Notes."),
                ("Orchard: Fruit trees: Pruning", "Cut."),
                ("Orchard: Fruit trees: Water", "Little."),
                ("Orchard: Tools", "Tools"),
            ],
        ),
        (
            "help.html",
            "<title>Help</title><h1>Help</h1><h2>Can I get a refund?</h2><h3>Within ten days</h3>"
            "<p>Yes.</p><h2>And later?</h2>",
            [
                ("Help: Can I get a refund?: Within ten days", "Yes."),
                ("Help: And later?", "And later?"),
            ],
        ),
        (
            "manual.rst",
            "======\nManual\n======\n\nUse\n===\n\nFirst\n-----\n\nOpen it.\n\nEnd\n===\n",
            [("Manual: Use: First", "Open it."), ("Manual: End", "End")],
        ),
    ],
)
def test_no_heading_is_lost(
    tmp_path: Path, name: str, text: str, expected: list[tuple[str, str]]
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert [(title, passage) for _, title, passage in _found(tmp_path)] == expected


def test_a_file_without_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("\n---\n\n", encoding="utf-8")
    (tmp_path / "b.html").write_text("<script>x</script>", encoding="utf-8")
    skipped = dict[str, str]()
    assert not list(read_folder(tmp_path, on_skipped=lambda p, y: skipped.update({p.name: y})))
    assert skipped == {"a.md": "no text", "b.html": "no text"}


@pytest.mark.parametrize("fence", ["```", "~~~~"])
@pytest.mark.parametrize("name", ["install.md", "install.txt"])
def test_fenced_code_is_one_paragraph(tmp_path: Path, name: str, fence: str) -> None:
    code = f"{fence}sh\n# fetch it\ngit clone x\n\n---\n\n# build it\n~~\nmake\n{fence}"
    (tmp_path / name).write_text(f"{code}\n\n# Then\n\nRun it.\n", encoding="utf-8")
    whole = f"{fence}sh # fetch it git clone x --- # build it ~~ make {fence}"
    assert _found(tmp_path) == [(f"{name}#1", "Then", whole), (f"{name}#2", "Then", "Run it.")]


def test_a_tilde_rule_underlines_where_it_opens_no_code(tmp_path: Path) -> None:
    for name in ("a.rst", "a.txt"):
        (tmp_path / name).write_text("Notes\n~~~~~\n\nOne.\n\nMore\n~~~~\n\nTwo.\n")
        found = [(title, text) for _, title, text in _found(tmp_path / name)]
        assert found == [("Notes", "One."), ("Notes: More", "Two.")]


def test_scripts_without_spaces_are_cut_by_characters(tmp_path: Path) -> None:
    sentence = "春天我们在院子里种了三棵苹果树，每天早上都要浇水。"
    (tmp_path / "a.txt").write_text("\n\n".join([sentence * 12] * 21), encoding="utf-8")
    texts = [text for *_, text in _found(tmp_path)]
    assert all(len(text) <= 240 for text in texts)
    assert all(text.endswith("。") for text in texts)
    assert "".join("".join(texts).split()) == sentence * 12 * 21


def test_marks_and_punctuation_stay_with_their_letter(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ที่นี่มีน้ำ" * 40 + "「好。」" * 40, encoding="utf-8")
    for *_, text in _found(tmp_path, words=10):
        assert text[0] not in "\u0e34\u0e35\u0e48\u0e49。」"


def test_a_word_without_end_is_cut(tmp_path: Path) -> None:
    address = "https://example.org/" + "a" * 80
    (tmp_path / "a.txt").write_text(f"see {address} and {'QUJD' * 3000}", encoding="utf-8")
    texts = [text for *_, text in _found(tmp_path)]
    assert all(len(text) <= 2500 for text in texts)
    assert texts[0].startswith("see ")
    assert " ".join(texts).replace(" ", "") == f"see{address}and{'QUJD' * 3000}"


RST = """:orphan:
:tocdepth: 2

.. _uninstall:

=========
Uninstall
=========

.. Here stands
   a comment.

.. pip-command-options:: uninstall

.. note:: It asks first.

.. warning::
   :class: loud

   Nothing comes back.

.. function:: remove(name)

   Remove it [1]_.

.. |pip| replace:: pip

.. meta::
   :http-equiv=refresh: 3; url=x

.. image:: picture.png
   :alt: a picture

.. [1] At once.

:ref:`More <more>` on that:
:returns: nothing.
"""


def test_markup_of_restructuredtext_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_text(RST, encoding="utf-8")
    assert _found(tmp_path) == [
        (
            "a.rst#1",
            "Uninstall",
            ".. note:: It asks first. Nothing comes back. .. function:: remove(name) Remove it "
            "[1]_. .. [1] At once. :ref:`More <more>` on that: :returns: nothing.",
        )
    ]
    (tmp_path / "a.rst").write_text("Options\n=======\n\n.. options:: uninstall\n")
    assert [text for *_, text in _found(tmp_path)] == ["Options"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<!-- one line -->\n\nseen", "seen"),
        ("<!-- some\n\n# lines -->\n\nseen", "seen"),
        ("<!--\nsome --> seen", "seen"),
        ("seen\n<!-- some\n```\nlines\n-->\nalso", "seen also"),
        ('<p align="center">\n  <img src="a.svg" alt="b">\n<br/>\n</p>\n\nseen', "seen"),
        ("<details><summary>More</summary>", "<details><summary>More</summary>"),
        ("```html\n<br>\n<!-- code\n```", "```html <br> <!-- code ```"),
        ("<https://a.org>\n<b@a.org>\nVec<T>", "<https://a.org> <b@a.org> Vec<T>"),
        ("<!-- all\nof it", ""),
        ("# Seen\n" + "<!--a-->" * 5000 + "<br />" * 5000, "Seen"),
    ],
)
def test_comments_and_tags_are_no_text(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "a.md").write_text(text, encoding="utf-8")
    assert " ".join(text for *_, text in _found(tmp_path)) == found


def test_a_line_of_tags_without_end_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("<!--a--><br />" * 5000 + "end", encoding="utf-8")
    assert _found(tmp_path)[-1][-1].endswith("end")


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match="found nothing there"):
        list(read_folder(tmp_path / "absent"))
    with pytest.raises(InvalidInputError, match="words is 3"):
        list(read_folder(tmp_path, words=3))


_WORD = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8)


@given(st.lists(st.lists(_WORD, min_size=1, max_size=60), max_size=12), st.integers(10, 40))
def test_no_word_of_plain_text_is_lost_and_no_passage_too_long(
    tmp_path_factory: pytest.TempPathFactory, paragraphs: list[list[str]], words: int
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    # Quoted, so that no word is taken for a heading, a rule or the mark of another encoding.
    lines = ["> " + " ".join(paragraph) for paragraph in paragraphs]
    (folder / "a.txt").write_text("\n\n".join(lines), encoding="utf-8")
    found = list(sdk.read_folder(folder, words=words))
    said = [w for one in found for w in one.text.split()]
    assert "".join(said) == "".join(" ".join(lines).split())
    if not any(map(UNSPACED.search, lines)):  # these are cut within words
        assert said == " ".join(lines).split()
        assert all(len(one.text.split()) <= words for one in found)
    assert len({one.id for one in found}) == len(found)


_MARKUP = st.lists(
    st.sampled_from(
        "<! <![ <!-- --> <!doctype </ < > & &# ]] ]]> [ <p> </p> <svg> <title> a".split()
    )
    | st.text(max_size=5),
    max_size=40,
).map("".join)


@given(st.text(max_size=300) | _MARKUP, st.sampled_from([".html", ".HTM", ".md", ".rst", ""]))
def test_anything_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, text: str, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    (folder / f"a{suffix}").write_bytes(text.encode("utf-8", "replace"))
    for one in sdk.read_folder(folder):
        assert one.text.strip()
        assert one.metadata["title"]
