"""The page of the rounds: complete, self-contained, and parsed as HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pocketquery.server.federation.report import federation_page, summary, write_report
from pocketquery.server.federation.rounds.options import FederationOptions
from tests.server.federation.round_reports import ACCEPTED, OVER, SKIPPED


class Page(HTMLParser):
    """Texts, and what the page would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.loads: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_shows_every_round_a_plot_and_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, OVER, "three <devices>", FederationOptions())
    page = Page(path.read_text(encoding="utf-8"))
    text = " ".join(page.texts)
    for wanted in ("three <devices>", "nDCG@10, from 0.5000 to 0.5200", "mean_fell", "not_finite",
                   "skipped", "declined 2, failed 1", "learning_rate", "release in force",
                   "candidate, refused"):  # fmt: skip
        assert wanted in text, wanted
    assert [one for one in page.loads if not one.startswith("#")] == []
    assert "<script" not in path.read_text(encoding="utf-8")


def test_the_same_rows_give_the_same_page() -> None:
    first, second = (
        federation_page(OVER, title="t", lead="l", settings={"steps": 3}) for _ in range(2)
    )
    assert first == second


def test_rounds_that_nothing_was_judged_in_need_no_plot() -> None:
    page = federation_page([SKIPPED], title="t", lead="l", settings={})
    assert "No round was judged" in page
    assert "<svg" not in page


def test_the_plot_says_what_is_missing_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pocketquery.server.federation.plots", None)
    page = federation_page([ACCEPTED], title="t", lead="l", settings={})
    assert re.search(r"pip install .*pocketquery\[demo\]", page)


def test_the_summary_counts() -> None:
    assert summary(OVER) == {
        "rounds": 4,
        "updates": 61,
        "releases": 1,
        "skipped": 1,
        "version": "2",
        "metric": "ndcg@10",
        "before": 0.5,
        "after": 0.52,
    }
    assert summary([])["after"] is None
