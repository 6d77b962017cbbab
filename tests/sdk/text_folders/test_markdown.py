from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from pocketquery import sdk
from pocketquery.sdk.text_folders import markdown, restructured
from tests.sdk.text_folders.reading import passages, seen, write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<!-- one line -->\n\nseen", "seen"),
        ("<!-- some\n\n# lines -->\n\nseen", "seen"),
        ("<!--\nsome --> seen", "seen"),
        ("%%\na note of Obsidian's\n%%\nseen %% not this %% too", "seen too"),
        ('<p align="center">\n  <img src="a.svg" alt="b">\n<br/>\n</p>\n\nseen', "b\nseen"),
        ("<details><summary>More</summary>", "More"),
        ("```html\n<br>\n  <!-- code\n```", "<br>\n  <!-- code"),
        ("<https://a.org>\n<b@a.org>\nVec<T>", "https://a.org b@a.org Vec<T>"),
        ("[[Note|words]], [[Note#Part]], [[Note]], [[a\\|b]]", "words, Note > Part, Note, b"),
        ("![[picture.png|100]] below ![[Other note]]", "below Other note"),
        ("![a cat](cat.png) and ![][ref]", "a cat and"),
        ("[text](https://a.org/x_(y) 'title') and [more][ref]", "text and more"),
        ("[ref]: https://a.org 'title'\n\nseen[^1]\n\n[^1]: the note", "seen\nthe note"),
        ("**bold** *it* _it_ ***both*** ~~old~~ ==new==", "bold it it both old new"),
        ("`__init__` and ``a`b`` in snake_case_name", "__init__ and a`b in snake_case_name"),
        ("__init__ 2 * 3 * 4 and *args, **kwargs", "__init__ 2 * 3 * 4 and *args, **kwargs"),
        ("a &amp; b &lt;c&gt; \\*d\\*", "a & b <c> *d*"),
        ("> [!warning] Mind\n> the gap", "Mind the gap"),
        (":::tip Hint\nSay please.\n:::", "Hint Say please."),
        ("| a | `b|c` |\n|---|:--:|\n| **1** | 2 |", "a | b|c\n1 | 2"),
        ("{% include x.html %}\nsee {{ site.name }} {{< ref >}}\n{: .big}", "see"),
        ('{{jsxref("Array.map", "map()")}} and {{domxref("Window")}}', "map() and Window"),
        ("Run\n\n    f(*a*)\n      [b](c)\n\n- x\n\n    *y*", "Run\nf(*a*)\n  [b](c)\n- x\ny"),
        ("`index`{{optional_inline}} is", "index is"),
        ("$z_{3,4} = \\\\ y_1*2*$ costs $5, not $6*", "$z_{3,4} = \\\\ y_1*2*$ costs $5, not $6*"),
        ("**bold\non two** lines", "bold on two lines"),
        ("hums. ^note-1\n\n- item ^a1\n\n| a |\n^t-9\n\n> more\n^q1", "hums.\n- item\na\nmore"),
        ("x^2, 2 ^ 3, `a ^bc` and see ^up there", "x^2, 2 ^ 3, a ^bc and see ^up there"),
        ("the template {{title}} stays", "the template {{title}} stays"),
        ("<kbd>Ctrl</kbd>+<kbd>K</kbd>", "Ctrl+K"),
        ("- one\n- [ ] two\n  goes on\n1. three", "- one\n- [ ] two goes on\n1. three"),
        ("<script setup>\nlet x = 1\n</script>\n\nseen", "seen"),
        (
            "**\u30dd\u30f3\u30d7\uff1a**\u518d\u8d77\u52d5",
            "\u30dd\u30f3\u30d7\uff1a\u518d\u8d77\u52d5",
        ),
        ("[![Build](b.svg)](ci)\n[![PyPI](p.svg)](pypi)\n\nseen", "seen"),
        ("# " + "long " * 100, ("long " * 100).strip()),
        ("***\n\n* * *\n\nseen", "seen"),
    ],
)
def test_the_text_is_what_a_reader_sees(tmp_path: Path, text: str, expected: str) -> None:
    assert seen(tmp_path, "a.md", text) == expected


def test_mdx_without_imports_and_components(tmp_path: Path) -> None:
    text = "import Tabs from '@theme/Tabs';\n\n# Use\n\n"
    text += "<Tabs>\n  <TabItem value='a'>Run it.</TabItem>\n</Tabs>\n"
    assert seen(tmp_path, "use.mdx", text) == "Run it."


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("## Use `foo_bar()` *now*", "use-foo_bar-now"),
        ("## Use {#other}", "other"),
        ("## Was ist die Größe?", "was-ist-die-größe"),
        ("Use\n---", "use"),
    ],
)
def test_anchors(tmp_path: Path, heading: str, anchor: str) -> None:
    write(tmp_path, "a.md", f"Intro.\n\n{heading}\n\nText.\n")
    *_, last = sdk.read_folder(tmp_path)
    assert last.metadata["anchor"] == anchor


def test_headings_with_one_anchor_are_numbered(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "## Use\nA.\n## More\nB.\n### Use\nC.\n")
    assert [one.metadata["anchor"] for one in sdk.read_folder(tmp_path)] == ["use", "more", "use-1"]


def test_lines_are_the_files(tmp_path: Path) -> None:
    write(
        tmp_path, "a.md", "---\ntitle: T\n---\n\nOne\ntwo.\n\n## Three\r\n\r\n\r\n```\nfour\n```\n"
    )
    assert [one.metadata["line"] for one in sdk.read_folder(tmp_path)] == [5, 12]


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_code_has_no_headings(tmp_path: Path, fence: str) -> None:
    code = "# fetch it\ngit clone x\n\n---\n\n    # build it\n~~\nmake"
    write(tmp_path, "install.md", f"{fence}sh\n{code}\n{fence}\n\n## Then\n\nRun it.\n")
    assert passages(tmp_path) == [
        ("install.md#1", "install", "# fetch it\ngit clone x\n---\n    # build it\n~~\nmake"),
        ("install.md#then", "install: Then", "Run it."),
    ]


@pytest.mark.parametrize("module", [markdown, restructured])
def test_no_markup_looks_for_its_end_without_a_limit(module: ModuleType) -> None:
    """Each sign that is not closed would be looked for up to the end of the paragraph."""
    patterns = [pattern for pattern, _ in module._INLINE]
    patterns += [one for one in vars(module).values() if isinstance(one, re.Pattern)]
    inline = [one.pattern for one in patterns if not one.pattern.startswith((r"\s*", " {0,3}"))]
    assert len(inline) > 10
    assert not [one for one in inline if re.search(r"\.[*+]\?", one)]


def test_long_lines_of_markup_end(tmp_path: Path) -> None:
    for text in ("<!--a--><br />" * 50_000, "*a" * 100_000, "[a" * 100_000, "` " * 99_999):
        assert seen(tmp_path, "a.md", text + " end").endswith("end")
