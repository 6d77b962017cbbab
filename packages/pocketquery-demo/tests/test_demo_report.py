"""The demo's page: every system, the gate, the searches; what is not ours is escaped."""

from __future__ import annotations

from pocketquery.sdk.index.index import Hit
from pocketquery_demo.report import report_page
from pocketquery_demo.results import DemoResults, System

_METRICS = ("ndcg@10", "mrr@10", "recall@1", "recall@5", "recall@20", "recall@100")
_SYSTEMS = (
    ("teacher", 0.8, 90_000_000, 12.0),
    ("student_fp32", 0.7, 60_000_000, 8.0),
    ("student_int8", 0.6, 18_000_000, 0.8),
    ("bm25", 0.5, 0, None),
    ("hybrid", 0.9, 18_000_000, None),
)


def test_the_page_shows_systems_gate_and_searches() -> None:
    results = DemoResults(
        systems=[System(n, dict.fromkeys(_METRICS, q), b, ms) for n, q, b, ms in _SYSTEMS],
        searches=[("a <query>", [Hit("1", 0.5, "text & more", {"title": "T <b>"})])],
        teacher="the teacher",
        space_id="space",
        student="3x128",
        documents=10,
        questions=20,
        index_bytes=1_500_000,
        gate={"passed": True, "steps": [{"overlap": 0.985, "excluded": []}]},
        seconds=90.0,
    )
    page = report_page(results)
    for wanted in (
        "<b>75.0%</b>of the teacher&#x27;s nDCG@10",
        '<tr class="ours"><td>student, int8</td><td>0.6000</td>',
        '<th scope="col">recall@100</th><th scope="col">MB</th>',
        "Passed: the int8 encoder shares 98.5%",
        "a &lt;query&gt;",
        "T &lt;b&gt;",
        "encoding one query, ms (p50)",
        "<b>1.5 MB</b>",
    ):
        assert wanted in page, wanted
