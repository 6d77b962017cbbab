"""The demo's page: what was made, how good, how large, how fast, and a few searches."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pocketquery.sdk.index.index import Hit
from pocketquery.server.pages.page import METRIC_NAMES, key_figures, page, table
from pocketquery_demo.plots import LABELS, quality_plot
from pocketquery_demo.results import DemoResults, System

__all__ = ["report_page", "results_table", "searches_text"]

_METRICS = ("ndcg@10", "mrr@10", "recall@1", "recall@5", "recall@20", "recall@100")
_COLUMNS = ("", *(METRIC_NAMES.get(metric, metric) for metric in _METRICS), "MB", "ms")


def report_page(results: DemoResults) -> str:
    """The page."""
    ours = results.system("student_int8")
    names = [system.name for system in results.systems]
    encode_ms = f"{ours.encode_ms:.2f} ms" if ours.encode_ms is not None else "-"
    lead = (
        f"{results.documents} Wikipedia paragraphs, encoded once by {results.teacher}; "
        f"{results.questions} questions on articles the query encoder has never seen."
    )
    figures = [
        (f"{results.retention:.1%}", "of the teacher's nDCG@10 kept by the int8 encoder"),
        (f"{ours.bytes / 1e6:.1f} MB", "the bundle on the device"),
        (encode_ms, "to encode a query, one thread, p50"),
        (f"{results.index_bytes / 1e6:.1f} MB", "the index on the device"),
    ]
    body = f"""{key_figures(figures)}<h2>Quality, size, latency</h2>
{quality_plot(results)}
{table(map(_cells, results.systems), _COLUMNS, numbers=True, ours={names.index("student_int8")})}
<p>All systems rank the same paragraphs. The teacher and the float student are searched exactly in
float32; the int8 encoder, BM25 and their hybrid through the index that devices carry. Latency is of
encoding alone, teacher and float student through torch; the hybrid encodes with the int8
encoder.</p>
<h2>The ranking gate</h2>{_gate(results)}
<h2>Searches</h2>
{"".join(_search(query, hits) for query, hits in results.searches)}
<h2>How it was made</h2>
<p>A {escape(results.student)} student was distilled into the space of the teacher
(<code>{escape(results.space_id)}</code>) from the questions and sentences of the other articles,
part of them mistyped; exported to int8 with its rankings checked; and evaluated on the held-out
articles. The whole run took {results.seconds / 60:.1f} minutes. The texts are from SQuAD 1.1 and
English Wikipedia, CC BY-SA 4.0.</p>"""
    return page("pocketquery demo", lead, body)


def results_table(results: DemoResults) -> str:
    """The table as a terminal shows it."""
    names = "".join(f"{METRIC_NAMES.get(metric, metric):>12}" for metric in _METRICS)
    lines = [f"{'':<22}{names}{'MB':>9}{'ms':>8}"]
    for system in results.systems:
        cells = "".join(f"{system.metrics[metric]:>12.4f}" for metric in _METRICS)
        lines.append(f"{LABELS[system.name]:<22}{cells}{_megabytes(system):>9}{_ms(system):>8}")
    lines.append(f"{'int8 keeps':<22}{results.retention:>12.1%} of the teacher's nDCG@10")
    return "\n".join(lines)


def searches_text(results: DemoResults) -> str:
    """The searches as a terminal shows them."""
    lines = []
    for query, hits in results.searches:
        lines.append(f"\n  {query}")
        lines += [f"    {hit.score:.2f}  {_title(hit)}: {_snippet(hit, 90)}" for hit in hits]
    return "\n".join(lines)


def _cells(system: System) -> list[str]:
    metrics = [f"{system.metrics[metric]:.4f}" for metric in _METRICS]
    return [LABELS[system.name], *metrics, _megabytes(system), _ms(system)]


def _gate(results: DemoResults) -> str:
    if results.gate is None:
        return "<p>Left out.</p>"
    last = results.gate["steps"][-1]
    floats = len(last["excluded"])
    return (
        f"<p>{'Passed' if results.gate['passed'] else 'Failed'}: "
        f"the int8 encoder shares {last['overlap']:.1%} of the float student's ten best documents "
        f"with it; {floats or 'no'} MatMul{'' if floats == 1 else 's'} had to stay in float.</p>"
    )


def _search(query: str, hits: Sequence[Hit]) -> str:
    items = "".join(
        f'<li class="hit"><b>{escape(_title(hit))}</b> <small>{hit.score:.2f}</small><br>'
        f"{escape(_snippet(hit, 220))}</li>"
        for hit in hits
    )
    return f"<h3>{escape(query)}</h3><ol>{items}</ol>\n"


def _title(hit: Hit) -> str:
    return str(hit.metadata.get("title", hit.id))


def _snippet(hit: Hit, length: int) -> str:
    text = " ".join(hit.text.split())
    return text if len(text) <= length else text[: text.rfind(" ", 0, length)] + " …"


def _megabytes(system: System) -> str:
    return f"{system.bytes / 1e6:.1f}" if system.bytes else "-"


def _ms(system: System) -> str:
    return f"{system.encode_ms:.2f}" if system.encode_ms is not None else "-"
