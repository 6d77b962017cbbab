from __future__ import annotations

from pathlib import Path

from pocketquery import sdk
from tests.sdk.text_folders.reading import passages, unnamed, write

PAGE = """<!doctype html><html><head><title>Water &amp; soil - My site</title>
<meta name="description" content="How to water."><style>p { color: red }</style></head>
<body><header>My site <a href="/">Home</a></header><nav><ul><li>One<li>Two</ul></nav>
<div class="sphinxsidebar">Next topic</div>
<main><h1>Water &amp; soil<a class="headerlink" href="#x">¶</a></h1><p>Water <b>early</b>.<p>Never
at noon.<img src="a.png" alt="A can">
<script>alert("no")</script><section id="soil"><h2>Soil</h2><ul><li>clay<li>sand</ul>
<pre>dig()
  twice()</pre></section></main>
<footer>Copyright</footer></body></html>"""


def test_a_page_without_what_is_around_it(tmp_path: Path) -> None:
    write(tmp_path, "water.html", PAGE)
    assert passages(tmp_path) == [
        (
            "water.html#water-soil",
            "Water & soil",
            "How to water.\nWater early.\nNever at noon. A can",
        ),
        ("water.html#water-soil/soil", "Water & soil: Soil", "clay\nsand\ndig()\n  twice()"),
    ]
    first, second = sdk.read_folder(tmp_path)
    assert "anchor" not in first.metadata
    assert second.metadata["anchor"] == "soil"
    assert second.metadata["line"] == 7


def test_a_passage_of_a_long_paragraph_knows_its_own_line(tmp_path: Path) -> None:
    lines = [f"Word{n} comes <b\n>here</b> and the<br\n/>rest follows." for n in range(200)]
    for name, start in (("a.html", "<p>"), ("b.html", "<pre>")):
        write(tmp_path, name, start + "\n".join(lines))
    file = [*(start + "\n".join(lines)).split("\n")]
    documents = list(sdk.read_folder(tmp_path))
    assert len(documents) > 10
    for document in documents:
        first = unnamed(document).split()[0]
        line = document.metadata["line"]
        assert any(first in one for one in file[line - 1 : line + 2]), (line, first)


def test_pages_are_read_as_browsers_do(tmp_path: Path) -> None:
    icon = "<svg><title>Search icon</title><path d='M0'/></svg>"
    write(
        tmp_path,
        "A.HTML",
        f"<title>A</title>{icon}<p>Use <![label](url) here<p>if (a<![0]) x"
        "<details><summary>Why</summary>So</details><select><option>Red<option>Green</select>",
    )
    # An unknown <![ is a comment, which ends with the next >.
    assert passages(tmp_path) == [("A.HTML#1", "A", "Use if (a\nWhy\nSo\nRed\nGreen")]


def test_an_element_that_is_not_closed_hides_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a.html", "<p hidden>x<p>seen<nav><p>not seen<div></nav>also seen")
    assert passages(tmp_path) == [("a.html#1", "a", "x\nseen\nalso seen")]
