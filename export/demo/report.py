"""The demo's page: what was made, how good, how large, how fast, and a few searches."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pocketquery.export.demo.plots import LABELS, quality_plot
from pocketquery.export.demo.results import DemoResults, System
from pocketquery.sdk.index.index import Hit

__all__ = ["report_page", "results_table", "searches_text"]

_METRICS = ("ndcg@10", "mrr@10", "recall@1", "recall@5", "recall@20", "recall@100")
_NAMES = {"ndcg@10": "nDCG@10", "mrr@10": "MRR@10"}

_STYLE = """
:root { color-scheme: light; --line: #d5d9de; --soft: #5b6570; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2126; background: #fff; }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
.lead { color: var(--soft); margin-top: 0 }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; padding: 0; list-style: none }
.figures li { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem; flex: 1 }
.figures b { display: block; font-size: 1.5rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { padding: .45rem .6rem; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left } tr.ours { font-weight: 600 }
svg { width: 100%; height: auto } ol { padding-left: 1.3rem }
.hit { margin-bottom: .5rem } .hit small { color: var(--soft) } code { font-size: .9em }
"""


def report_page(results: DemoResults) -> str:
    """A self-contained HTML page: no script, no font and no image from elsewhere."""
    ours = results.system("student_int8")
    encode_ms = f"{ours.encode_ms:.2f} ms" if ours.encode_ms is not None else "-"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>pocketquery demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>
<body><h1>pocketquery demo</h1>
<p class="lead">{results.documents} Wikipedia paragraphs, encoded once by {escape(results.teacher)};
{results.questions} questions on articles the query encoder has never seen.</p>
<ul class="figures">
<li><b>{results.retention:.1%}</b>of the teacher's nDCG@10 kept by the int8 encoder</li>
<li><b>{ours.bytes / 1e6:.1f} MB</b>the bundle on the device</li>
<li><b>{encode_ms}</b>to encode a query, one thread, p50</li>
<li><b>{results.index_bytes / 1e6:.1f} MB</b>the index on the device</li></ul>
<h2>Quality, size, latency</h2>
{quality_plot(results)}
<div class="scroll"><table><thead>{_header()}</thead><tbody>
{"".join(_row(system) for system in results.systems)}</tbody></table></div>
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
English Wikipedia, CC BY-SA 4.0.</p></body></html>
"""


def results_table(results: DemoResults) -> str:
    """The table as a terminal shows it."""
    names = "".join(f"{_NAMES.get(metric, metric):>12}" for metric in _METRICS)
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


def _header() -> str:
    columns = ["", *(_NAMES.get(metric, metric) for metric in _METRICS), "MB", "ms"]
    return "<tr>" + "".join(f'<th scope="col">{name}</th>' for name in columns) + "</tr>"


def _row(system: System) -> str:
    cells = "".join(f"<td>{system.metrics[metric]:.4f}</td>" for metric in _METRICS)
    ours = ' class="ours"' if system.name == "student_int8" else ""
    return (
        f"<tr{ours}><td>{LABELS[system.name]}</td>{cells}"
        f"<td>{_megabytes(system)}</td><td>{_ms(system)}</td></tr>\n"
    )


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
