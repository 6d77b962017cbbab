"""The page's parts: escaped, self-contained, and the same text for the same figure."""

from __future__ import annotations

from html.parser import HTMLParser

from pocketquery.server.pages.page import key_figures, page, settings_table, table
from pocketquery.server.pages.svg import new_figure, svg, tidy

HOSTILE = '<script src="https://example.org/x.js">alert("&")</script>'


class Elements(HTMLParser):
    """Every element with its attributes, and all text outside the style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_what_is_given_as_text_stays_text() -> None:
    body = (
        key_figures([(HOSTILE, HOSTILE)])
        + table([[HOSTILE, "1"]], [HOSTILE, "n"])
        + settings_table({HOSTILE: HOSTILE})
    )
    found = Elements(page(HOSTILE, HOSTILE, body))
    assert "script" not in [tag for tag, _ in found.found]
    assert found.text.count(HOSTILE) == 9  # the title is shown twice
    assert all(
        "src" not in attributes and "href" not in attributes for _, attributes in found.found
    )


def test_a_table_has_its_header_its_kind_and_the_rows_that_stand_out() -> None:
    html = table([["a", "1"], ["b", "2"]], ["", "n"], numbers=True, ours={1})
    found = Elements(html).found
    assert ("table", {"class": "numbers"}) in found
    assert [attributes for tag, attributes in found if tag == "tr"] == [{}, {}, {"class": "ours"}]
    assert found.count(("th", {"scope": "col"})) == 2
    assert "<thead>" not in table([["a"]])


def test_the_same_figure_is_the_same_text_that_loads_nothing() -> None:
    def drawn() -> str:
        figure = new_figure(2.0)
        axes = figure.subplots()
        axes.plot([1, 2], [3, 4], label="a line")
        tidy(axes)
        return svg(figure)

    assert drawn() == drawn()
    assert drawn().startswith("<svg")
    assert "<image" not in drawn()
