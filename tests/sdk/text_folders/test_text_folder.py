from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.text_folders.listing import SUFFIXES
from tests.sdk.text_folders.reading import passages, skipped, write


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Pump restart.md", "## Steps\n\nDo it.\n", [("steps", "Pump restart: Steps")]),
        (
            "Pump restart.md",
            "Intro.\n\n# Steps\n\nDo it.\n",
            [("1", "Pump restart"), ("steps", "Steps")],
        ),
        (
            "garden.md",
            "# Garden\n\nA.\n\n## Roses\n\nB.\n\n### Cut\n\nC.\n",
            [
                ("garden", "Garden"),
                ("garden/roses", "Garden: Roses"),
                ("garden/roses/cut", "Garden: Roses: Cut"),
            ],
        ),
        (
            "fruit.md",
            "# Apples\n\nRed.\n\n# Kiwis\n\nGreen.\n",
            [("apples", "Apples"), ("kiwis", "Kiwis")],
        ),
        (
            "CHANGES.rst",
            "Version 3.2.0\n-------------\n\nA.\n\nVersion 1.1.2\n-------------\n\nB.\n",
            [("version-3.2.0", "Version 3.2.0"), ("version-1.1.2", "Version 1.1.2")],
        ),
        (
            "log.md",
            "# Log\n\n## 1.0\n\n### Fixed\n\nA.\n\n## 0.9\n\n### Fixed\n\nB.\n### Fixed\nC.\n",
            [
                ("log/1.0/fixed", "Log: 1.0: Fixed"),
                ("log/0.9/fixed", "Log: 0.9: Fixed"),
                ("log/0.9/fixed~2", "Log: 0.9: Fixed"),
            ],
        ),
        (
            "a.md",
            "---\ntitle: Front\n---\n# Top\n\nA.\n\n## 2024\nB.\n",
            [("top", "Front: Top"), ("top/2024", "Front: Top: 2024")],
        ),
        ("a.md", "## 2024\n\nA.\n", [("2024:1", "a: 2024")]),
        ("docs/index.md", "Welcome.\n", [("1", "docs")]),
        ("garden/README.md", "## Roses\n\nA.\n", [("roses", "garden: Roses")]),
        ("2024-05-01-spring_work.txt", "A.\n", [("1", "2024-05-01 spring work")]),
        ("Pop-out windows.md", "A.\n", [("1", "Pop-out windows")]),
        (
            "todo.md",
            "# To do\n## Renew\n## Call\n",
            [("to-do/renew", "To do: Renew"), ("to-do/call", "To do: Call")],
        ),
        ("deep.md", "# Deep\n## Trees\n### Cut\nA.\n", [("deep/trees/cut", "Deep: Trees: Cut")]),
        (
            "help.html",
            "<title>Refunds - Shop</title><h1>Refunds</h1><p>A.<h2>Later</h2><p>B.",
            [("refunds", "Refunds"), ("refunds/later", "Refunds: Later")],
        ),
        ("help.html", "<title>Help</title><h2>Refund?</h2><p>A.", [("refund", "Help: Refund?")]),
        ("empty.md", "---\ntitle: Only a title\n---\n", [("1", "Only a title")]),
    ],
)
def test_titles_and_ids(
    tmp_path: Path, name: str, text: str, expected: list[tuple[str, str]]
) -> None:
    write(tmp_path, name, text)
    assert [(i, title) for i, title, _ in passages(tmp_path)] == [
        (f"{name}#{place}", title) for place, title in expected
    ]


def test_metadata(tmp_path: Path) -> None:
    front = "---\ntags: [heating, pump]\naliases:\n  - Umwälzpumpe\ndate: 2024-05-01\n---\n"
    write(tmp_path, "sub/valve.md", f"{front}\nOpen it.\n\n## The red one {{#red}}\n\nFirst.\n")
    first, second = sdk.read_folder(tmp_path)
    fields = {"tags": ["heating", "pump"], "aliases": ["Umwälzpumpe"], "date": "2024-05-01"}
    assert first.text == "valve.md\nUmwälzpumpe\nheating, pump\nOpen it."
    assert first.metadata == {
        **fields,
        "title": "valve",
        "path": "sub/valve.md",
        "headings": [],
        "part": 1,
        "line": 8,
        "preamble": len("valve.md\nUmwälzpumpe\nheating, pump\n"),
    }
    assert second.text == "First."
    assert second.metadata == {
        **fields,
        "title": "valve: The red one",
        "path": "sub/valve.md",
        "headings": ["The red one"],
        "anchor": "red",
        "part": 1,
        "line": 12,
    }


def test_a_file_is_found_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, "pump.md", "# Restarting\n\nDo it.")
    write(tmp_path, "sub/index.md", "# All of it\n\nHere.")
    assert [one.text for one in sdk.read_folder(tmp_path)] == [
        "pump.md\nDo it.",
        "sub\nHere.",
    ]


def test_a_change_of_one_section_leaves_the_other_ids_alone(tmp_path: Path) -> None:
    sections = [f"## Part {n % 4}\n\nText {n}.\n\n### Detail\n\nMore {n}.\n\n" for n in range(12)]

    def by_text(parts: list[str]) -> dict[str, str]:
        write(tmp_path, "a.md", "Intro.\n\n" + "".join(parts))
        return {text: identifier for identifier, _, text in passages(tmp_path)}

    before = by_text(sections)
    after = by_text([*sections[:5], "## New\n\nNew text.\n\n", *sections[5:]])
    assert len(before) == 25
    assert set(after.items()) - set(before.items()) == {("New text.", "a.md#new")}


def test_one_file_is_a_folder_of_one(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "one")
    assert passages(tmp_path / "a.txt") == [("a.txt#1", "a", "one")]


def test_files_without_text_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "\n---\n\n- \n")
    write(tmp_path, "b.html", "<script>x</script>")
    write(tmp_path, "c.txt", b"a\0b")
    assert skipped(tmp_path) == (
        {"a.md": "no text", "b.html": "no text", "c.txt": "not text: it has zero bytes"},
        "skipped 3 files: 2 without text, 1 binary",
    )


def test_a_file_that_changes_while_it_is_read_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a.md", "one")
    real = os.fstat

    def growing(descriptor: int) -> os.stat_result:
        with path.open("a") as file:
            file.write("x")
        return real(descriptor)

    monkeypatch.setattr(os, "fstat", growing)
    assert skipped(tmp_path)[1] == "skipped 1 file: 1 changing"


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
def test_passages_of_private_files_are_private(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "one").chmod(stat.S_IRUSR)
    assert next(sdk.read_folder(tmp_path)).private


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match="found nothing there"):
        list(sdk.read_folder(tmp_path / "absent"))
    with pytest.raises(InvalidInputError, match="most is 3"):
        list(sdk.read_folder(tmp_path, most=3))


_MARKUP = st.lists(
    st.sampled_from(
        "<! <![ <!-- --> <!doctype </ < > & &# ]] ]]> [ [[ | ]( ) <p> </p> <svg> <title> <nav> "
        "<h1> --- +++ :: .. .. code:: ``` ~~~ # ## {{ }} {% `` ` * _ $ \\ === a\n \n \t".split(" ")
    )
    | st.text(max_size=5),
    max_size=40,
).map("".join)


@given(st.text(max_size=300) | _MARKUP, st.sampled_from(SUFFIXES))
def test_any_text_is_read(tmp_path_factory: pytest.TempPathFactory, text: str, suffix: str) -> None:
    folder = tmp_path_factory.mktemp("texts")
    path = write(folder, f"a{suffix}", text.encode("utf-8", "replace"))
    documents = list(sdk.read_folder(folder))
    assert len({one.id for one in documents}) == len(documents)
    lines = path.read_text(encoding="utf-8").count("\n") + text.count("\r") + 1
    for one in documents:
        assert one.text.strip()
        assert one.metadata["title"]
        assert 0 <= one.metadata.get("line", 0) <= lines


@given(st.binary(max_size=300), st.sampled_from(SUFFIXES))
def test_any_bytes_are_read_or_skipped(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    write(folder, f"a{suffix}", data)
    list(sdk.read_folder(folder))


def test_a_path_is_no_listed_file() -> None:
    with pytest.raises(
        InvalidInputError, match=r"expected one of sdk\.list_files\(folder\)\.files"
    ):
        sdk.read_file("notes/garden.md")  # type: ignore[arg-type]
