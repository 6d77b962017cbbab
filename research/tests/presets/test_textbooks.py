from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery_research.presets import textbooks
from pocketquery_research.presets.clones import FILE
from research.tests.presets.clones import commit, git, new_clone

BY, NONCOMMERCIAL = "Attribution 4.0 International\n", "Attribution-NonCommercial-ShareAlike 4.0\n"
LONG = "Cells that divide by binary fission make two copies of what they were before they began."
MODULE = """<document xmlns="http://cnx.rice.edu/cnxml" xmlns:m="http://www.w3.org/1998/Math/MathML">
<title>{title}</title>
<metadata><title>not this</title></metadata>
<content>
 <para>{text}</para>
 <para>Too short.</para>
 <figure><caption>{text}</caption></figure>
 <section><title>Growth <term>rates</term></title>
  <para>{text} In <m:math><m:mi>t</m:mi> <m:mo>=</m:mo> <m:mn>2</m:mn></m:math> hours
   <list><item>an item</item></list>they<footnote>a note</footnote> double.</para>
  <note><title>Aside</title><exercise><problem><para>{text}</para></problem></exercise></note>
 </section>
 <para>{text}</para>
</content>
<glossary><definition><term>fission</term><meaning>a cell <emphasis>divides</emphasis></meaning>
</definition><definition><term>half</term></definition></glossary>
</document>"""


def _module(title: str = "Bacteria", text: str = LONG) -> str:
    return MODULE.format(title=title, text=text)


def _clone(folder: Path, *versions: tuple[str, str]) -> Path:
    """A repository; each version is a licence and the module of that commit."""
    clone = new_clone(folder / "osbooks-microbiology")
    for licence, module in versions:
        commit(clone, {"LICENSE": licence.encode(), "modules/m1/index.cnxml": module.encode()})
    return clone


def _read(output: Path) -> list[Any]:
    with lzma.open(output / FILE, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_paragraphs_have_their_sections_and_the_glossary_comes_last() -> None:
    assert list(textbooks.paragraphs(ElementTree.fromstring(_module()))) == [
        ("", LONG),
        ("Growth rates", f"{LONG} In t=2 hours they double."),
        ("Growth rates", LONG),
        ("", LONG),
        ("fission", "fission: a cell divides"),
    ]


def test_the_newest_commit_under_cc_by_is_read(tmp_path: Path) -> None:
    then, now = "What was said then was long enough to be a paragraph: " * 2, "Now " * 40
    clone = _clone(
        tmp_path,
        (BY, _module(text="The first version of all is older, and nobody reads it any more. " * 2)),
        (BY, _module("Introduction", then + "yes.")),
        (NONCOMMERCIAL, _module(text=now + ".")),
        (NONCOMMERCIAL, _module(text=now + "!")),
    )
    assert textbooks.main([str(clone), "--output", str(tmp_path / "out")]) == 0
    (page,) = _read(tmp_path / "out")
    assert page["paragraphs"][0] == {"section": "", "text": then + "yes."}


def test_a_module_without_a_name_of_its_own_has_the_books(tmp_path: Path) -> None:
    clone = _clone(tmp_path, (BY, _module("Introduction")))
    bare = tmp_path / "osbooks-microbiology.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(clone), str(bare))
    for one in (clone, bare):
        assert textbooks.main([str(one), "--output", str(tmp_path / "out")]) == 0
        assert _read(tmp_path / "out")[0]["title"] == "microbiology"


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ([(NONCOMMERCIAL, _module())], "was never under CC BY 4.0"),
        ([], "no clone that can be read|never under CC BY 4.0"),
        ([(BY, "<document>")], "modules/m1/index.cnxml at .* is no XML"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    versions: list[tuple[str, str]],
    said: str,
) -> None:
    clone = _clone(tmp_path, *versions)
    assert textbooks.main([str(clone), "--output", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()
    found = capsys.readouterr().err
    assert re.search(said, found), found


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<&"), max_size=200)
)
def test_any_text_is_kept_but_for_its_spaces(text: str) -> None:
    whole = f"{text} {LONG}"
    found = dict(textbooks.paragraphs(ElementTree.fromstring(_module(text=whole))))
    assert found[""] == " ".join(whole.split())
