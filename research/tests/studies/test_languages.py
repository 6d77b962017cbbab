"""The journey with a manual in many languages: its pages, how they are dealt, and its scores."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import ArtifactNotFoundError

ROOT = Path(__file__).parents[3]
FOLDERS = [str(ROOT / "research" / "studies"), str(ROOT / "benchmarks")]


@pytest.fixture(autouse=True)
def as_a_script() -> Iterator[None]:
    """As where the benchmarks are run from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*FOLDERS, *sys.path])
        yield


PAGE = """<!DOCTYPE html><html><head><title>No</title><meta name="x"></head><body>
<p>Contents</p><div id="Other"><p>Index</p></div>
<div id="DisplayArea"><meta itemprop="keywords" content="k"><br>
<h1 id="a">
<a name="b"></a>Opening &amp; saving</h1>
<p class="paragraph">Choose <span class="MAC"><b>LibreOffice - Preferences</b></span><span>Tools
- Options</span>.</p>
<ul><li><p>One<br>two</p></li></ul><p> </p><p>One two</p>
<div class="relatedtopics"><p>Related</p><div><p>Another page</p></div></div>
<p>Below</p></div>
<div id="SearchFrame"></div><footer><p>Debug info</p></footer></body></html>"""


def test_a_page_is_its_own_part_and_what_is_visible_of_it() -> None:
    from language_journey.manual import read_page

    page = read_page(PAGE, "a")
    assert page.title == "Opening & saving"
    assert page.paragraphs == ("Choose Tools - Options.", "Onetwo", "One two", "Below")
    assert read_page("<p>nothing here</p>").paragraphs == ()


@given(st.text(alphabet="<>/dpivh1 =\"'idDisplayArea&;x", max_size=80))
def test_any_text_is_a_page(html: str) -> None:
    from language_journey.manual import read_page

    page = read_page(f'<div id="DisplayArea"><h1>T</h1>{html}')
    assert all(text == " ".join(text.split()) and text for text in page.paragraphs)


def a_manual(folder: Path, pages: dict[str, dict[str, list[str]]]) -> Path:
    for language, own in pages.items():
        for name, texts in own.items():
            path = folder / language / "text" / f"{name}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            body = "".join(f"<p>{text}</p>" for text in texts)
            path.write_text(f'<div id="DisplayArea"><h1>{name}</h1>{body}</div>', encoding="utf-8")
    return folder


def test_what_is_not_translated_and_what_comes_again_is_left_out(tmp_path: Path) -> None:
    from language_journey.manual import read_manual

    english = {"s/a": ["one", "two", "three", "four"], "s/b": ["one", "five", "six", "seven"]}
    german = {"s/a": ["eins", "two", "drei", "vier"], "s/b": ["one", "five", "sechs", "sieben"]}
    found = read_manual(a_manual(tmp_path, {"en-US": english, "de": german}), ["de", "en"])
    texts = [page.paragraphs for page in found["en"].values()]
    assert sorted(map(len, texts)) == [3, 4]  # "one" is on the first of both alone
    assert found["de"]["s/a"].paragraphs == ("eins", "drei", "vier")
    assert "s/b" not in found["de"]  # two paragraphs are left
    with pytest.raises(ArtifactNotFoundError, match="libreoffice-help-ja"):
        read_manual(tmp_path, ["ja"])


@given(
    st.dictionaries(
        st.sampled_from(["de", "en", "ja", "zh"]),
        st.dictionaries(st.text("abcd", min_size=1, max_size=3), st.integers(1, 50), max_size=30),
        min_size=1,
    ),
    st.integers(0, 5),
)
def test_no_page_is_dealt_to_two_languages(sizes: dict[str, dict[str, int]], held_out: int) -> None:
    from language_journey.manual import Page, deal

    pages = {
        language: {name: Page(name, "t", ("x" * size,)) for name, size in own.items()}
        for language, own in sizes.items()
    }
    split = deal(pages, held_out)
    assert len(split.held_out) <= held_out
    for part in (split.training, split.unseen):
        dealt = [name for own in part.values() for name in own]
        assert len(dealt) == len(set(dealt))
        assert not set(dealt) & set(split.held_out)
        assert all(name in pages[language] for language, own in part.items() for name in own)
    assert all(not set(split.training[one]) & set(split.unseen[one]) for one in pages)
    everything = {name for own in pages.values() for name in own}
    learnt = {name for own in split.training.values() for name in own}
    assert learnt | set(split.held_out) == everything


def test_pages_are_read_as_they_were_written_and_as_documents(tmp_path: Path) -> None:
    from language_journey.manual import Page, read_pages, write_pages

    from pocketquery.server.corpus import read_documents, read_groups

    pages = [Page("s/a", "Öffnen", ("Ein Satz. Noch einer.", "三")), Page("s/b", "B", ("x",))]
    path = tmp_path / "texts" / "de.jsonl"
    write_pages(pages, "de", path)
    assert read_pages(path) == pages
    (first, _) = read_groups(path, "documents")
    assert (first.id, first.lang, first.title) == ("de/s/a", "de", True)
    assert first.texts == ("Öffnen", "Ein Satz.", "Noch einer.", "三")
    assert [one.id for one in read_documents(path)] == ["de/s/a", "de/s/b"]


def test_pages_are_looked_for_in_the_next_language_that_is_not_english(tmp_path: Path) -> None:
    from language_journey.manual import Page
    from language_journey.sets import tests_of

    pages = {one: [Page("s/a", f"title {one}", (f"text {one}",))] for one in ("en", "de", "nl")}
    found = {
        language: {
            test.name: (test.asked_in, test.queries, test.written_in, test.documents)
            for test in tests_of(tmp_path, pages, language)
            if test.name.startswith("pages")
        }
        for language in ("en", "de")
    }
    assert found["en"] == {}
    assert found["de"] == {
        "pages_to_en": ("de", ["text de"], "en", ["text en"]),
        "pages_from_en": ("en", ["text en"], "de", ["text de"]),
        "pages_between": ("de", ["text de"], "nl", ["text nl"]),
    }
    (last,) = [one for one in tests_of(tmp_path, pages, "nl") if one.name == "pages_between"]
    assert last.written_in == "de"
    alone = {one: pages[one] for one in ("en", "de")}
    assert "pages_between" not in [one.name for one in tests_of(tmp_path, alone, "de")]


class FixedVectors:
    """Each text is a number: the place of its one in a row of zeros."""

    def vectors(self, system: str, texts: Sequence[str], language: str, **_: Any) -> Any:
        return np.eye(4, dtype=np.float32)[[int(text) for text in texts]]


def a_test(name: str, **changes: Any) -> Any:
    from language_journey.sets import Test

    given = {
        "queries": ["0", "1", "2"],
        "documents": ["0", "1", "3"],
        "right": [frozenset({0}), frozenset({1}), frozenset({0, 1, 2})],
        **changes,
    }
    return Test(name, "de", "de", "en", **given)


def test_scores_by_hand() -> None:
    from language_journey.scoring import figures, score

    encoders: Any = FixedVectors()
    found = score(a_test("tatoeba_to_en"), "ccp", encoders)
    assert found.tolist() == [1, 1, 1]
    wrong = a_test("tatoeba_to_en", right=[frozenset({1}), frozenset({1}), frozenset()])
    assert score(wrong, "ccp", encoders).tolist() == [0, 1, 0]
    out = a_test("xsid", excluded=[frozenset({0})] * 3, right=[frozenset({0})] * 3)
    assert score(out, "ccp", encoders).tolist() == [0, 0, 0]
    assert score(a_test("manual"), "ccp", encoders) == pytest.approx([1, 1, 1])
    told = figures(wrong, {"ccp": score(wrong, "ccp", encoders), "random": np.zeros(3)})
    assert told["systems"]["ccp"][0] == pytest.approx(1 / 3, abs=1e-4)
    assert told["gains"]["ccp_over_random"] == told["systems"]["ccp"]
    assert told["chance"] == pytest.approx((1 / 3 + 1 / 3 + 0) / 3, abs=1e-4)


def test_words_find_what_shares_them() -> None:
    from language_journey.scoring import score

    test = a_test(
        "manual",
        queries=["insert a table", "nothing shared"],
        documents=["print the page", "a table of contents to insert"],
        right=[frozenset({1}), frozenset({0})],
    )
    encoders: Any = None
    assert score(test, "bm25", encoders).tolist() == [1, 0]


def test_the_page_holds_the_lines_that_were_run_and_the_stored_tables() -> None:
    from language_journey.lines import LINES
    from language_journey.page import with_tables

    page = (ROOT / "research/languages.md").read_text("utf-8")
    plain = " ".join(page.replace("\\\n", " ").split())
    for line in LINES.values():
        assert f"pocketquery {line}" in plain
    stored = json.loads((ROOT / "research/results/languages.json").read_text("utf-8"))["figures"]
    assert stored["lines"] == {name: f"pocketquery {line}" for name, line in LINES.items()}
    assert with_tables(page, stored) == page
    with pytest.raises(ValueError, match="expected both"):
        with_tables("no place", stored)
