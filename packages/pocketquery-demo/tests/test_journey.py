from __future__ import annotations

import dataclasses
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.distill import TrainingConfig
from pocketquery.sdk.index.index import Hit
from pocketquery.server.corpus import Collection
from pocketquery_demo.corpus import DemoCorpus, article, read_demo_corpus
from pocketquery_demo.journey import DemoSettings, run_demo
from pocketquery_demo.report import report_page, results_table, searches_text
from pocketquery_demo.results import DemoResults
from tests.tiny_models import bert_teacher


def slice_of(corpus: DemoCorpus, articles: set[str], most: int) -> DemoCorpus:
    """The first paragraphs of some articles and the questions on them."""
    documents = [d for d in corpus.documents if article(d.id) in articles]
    documents = [d for d in documents if int(d.id.rsplit("#", 1)[1]) < most]
    parts = [
        Collection.of(documents, part.queries, part.judgements)
        for part in (corpus.training, corpus.held_out)
    ]
    return DemoCorpus(documents, *parts)


@pytest.fixture(scope="module")
def corpus() -> DemoCorpus:
    whole = read_demo_corpus()
    learnt = sorted({article(d.id) for d in whole.training_documents})[:2]
    return slice_of(whole, {*learnt, "Oxygen", "Normans"}, 8)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> DemoSettings:
    folder = tmp_path_factory.mktemp("teacher") / "tiny"
    bert_teacher(layers=2).save(folder)
    training = TrainingConfig(steps=4, batch_size=8, nearest=2, random_documents=8, max_length=32)
    return DemoSettings(str(folder), "2x64", training, pieces=40, gate_queries=20)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("output") / "demo"


@pytest.fixture(scope="module")
def results(output: Path, corpus: DemoCorpus, settings: DemoSettings) -> DemoResults:
    return run_demo(output, settings, corpus=corpus, say=lambda line: None, show_progress_bar=False)


def test_the_report_says_what_programs_read(results: DemoResults, output: Path) -> None:
    report = json.loads(json.dumps(results.to_dict()))
    quality = report["ndcg_at_10"]
    assert quality.keys() >= {"teacher", "student_fp32", "student_int8", "bm25"}
    assert all(0 <= value <= 1 for value in quality.values())
    assert report["retention"] == pytest.approx(quality["student_int8"] / quality["teacher"])
    size = sum(file.stat().st_size for file in (output / "bundle").iterdir())
    assert report["bundle_bytes"] == size
    assert 0 < report["encode_ms_p50"] < 1000
    assert report["gate"]["passed"] is True


def test_the_artefacts_work_together(results: DemoResults, output: Path) -> None:
    sdk.verify(output / "bundle")
    encoder = sdk.load(output / "bundle")
    assert encoder.space_id == results.space_id
    with sdk.open_index(output / "index", encoder=encoder) as index:
        assert len(index) == results.documents
        assert len(index.search("oxygen", k=3)) == 3


def test_run_again_it_reuses_the_student_and_comes_to_the_same(
    results: DemoResults, output: Path, corpus: DemoCorpus, settings: DemoSettings
) -> None:
    weights = output / "student" / "model.safetensors"
    graph = output / "bundle" / "encoder.onnx"
    before = weights.stat().st_mtime_ns, graph.read_bytes()
    again = run_demo(
        output, settings, corpus=corpus, say=lambda line: None, show_progress_bar=False
    )
    assert (weights.stat().st_mtime_ns, graph.read_bytes()) == before
    assert again.to_dict()["ndcg_at_10"] == results.to_dict()["ndcg_at_10"]
    names = {path.name for path in output.iterdir()}
    assert names == {"cache", "student", "bundle", "index"}


class Page(HTMLParser):
    """Checks that tags close in order, and keeps tags and text."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_is_well_formed_and_escapes_what_it_shows(results: DemoResults) -> None:
    hostile = "<script>alert('&amp;')</script>"
    hit = Hit(id="a", score=0.5, text=hostile, metadata={"title": "<img src=x>"})
    shown = dataclasses.replace(results, searches=[(hostile, [hit])], teacher="a<b>&c")
    page = Page(report_page(shown))
    assert not page.open
    assert {"table", "svg", "ol"} <= page.tags
    assert page.tags.isdisjoint({"script", "img"})
    for text in (hostile, "<img src=x>", "a<b>&c"):
        assert text in page.words


def test_a_terminal_shows_every_system_and_search(results: DemoResults) -> None:
    table = results_table(results)
    for label in ("teacher", "student, float32", "student, int8", "BM25", "hybrid"):
        assert label in table
    assert all(query in searches_text(results) for query, _ in results.searches)
