"""docs/results.md and its plot, made of the stored results: nothing in them is typed by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from suite.results import compared, problems, read, shown
from suite.table import BENCHMARKS, LEFT_OUT, MOST_SECONDS, ROOT, Benchmark, Comparison, LeftOut

from pocketquery.sdk.files import write_atomic

__all__ = ["PAGE", "PLOT", "page", "plot", "write_page"]

PAGE = ROOT / "docs" / "results.md"
PLOT = ROOT / "docs" / "images" / "benchmarks.svg"
_SIGNS = {"<=": "at most", ">=": "at least", "<": "below", ">": "above"}


def write_page() -> None:
    """Write the page and the plot of what is stored."""
    results = {benchmark: read(benchmark) for benchmark in BENCHMARKS}
    write_atomic(PAGE, page(results, {one: read(one) for one in LEFT_OUT if one.stores}))
    write_atomic(PLOT, plot(results))


def page(results: dict[Benchmark, Any], apart: dict[LeftOut, Any]) -> str:
    """The page.

    Args:
        results: the stored result of each benchmark, None where there is none.
        apart: the results of those that store them by themselves.
    """
    there = {one: result for one, result in results.items() if result is not None}
    parts = [
        "# Results\n\n"
        "<!-- made by benchmarks/run_all.py from docs/results/*.json; do not edit -->\n\n"
        "`make bench` runs the benchmarks one after the other, stores what each found under\n"
        "`docs/results/` and writes this page; `make bench-check` measures nothing and fails\n"
        "where a stored figure misses its threshold, or a benchmark has none. Together they get\n"
        f"{sum(one.budget for one in BENCHMARKS) / 60:.0f} minutes of two cores with nothing else "
        f"to do (at most {MOST_SECONDS // 60}). What each measures, and against whom, is in\n"
        "[benchmarks/README.md](../benchmarks/README.md).\n\n"
        f"Stored: {len(there)} of {len(results)} benchmarks; "
        f"{sum(not problems(one, result, '') for one, result in there.items())} reach what they "
        "must.\n"
    ]
    if there:
        parts.append(
            "![Each figure over its threshold](images/benchmarks.svg)\n\n"
            "Each bar is a figure over its threshold, or the other way round where it must be at "
            "least that: left of the line is\nreached.\n"
        )
    parts += [_section(one, result) for one, result in there.items()]
    if waiting := [one for one in results if one not in there]:
        parts.append("## Not measured yet\n\nNo result is stored:\n")
        parts.append(_waiting(waiting))
    parts.append("## Left out\n\nNot run with the others, and why:\n")
    parts.append(_left_out(apart))
    return "\n".join(parts)


def plot(results: dict[Benchmark, Any]) -> str:
    """Every figure over its threshold, as SVG."""
    from pocketquery.server.pages.svg import GREEN, GREY, VERMILION, new_figure, svg, tidy

    bars = [
        (f"{benchmark.name}: {one.figure}", share, one.reached)
        for benchmark, result in results.items()
        if result is not None
        for one in compared(benchmark, result["figures"])
        if (share := share_of(one)) is not None
    ]
    figure = new_figure(1.2 + 0.24 * len(bars))
    axes = figure.add_subplot()
    tidy(axes)
    for row, (_, share, reached) in enumerate(bars):
        axes.barh(row, min(share, 2.0), color=GREEN if reached else VERMILION, height=0.7)
        axes.text(min(share, 2.0) + 0.02, row, f"{share:.2f}", va="center", fontsize=8)
    axes.axvline(1, color=GREY, linewidth=1)
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars], fontsize=8)
    axes.set_xlim(0, 2.2)
    axes.set_ylim(len(bars) - 0.4, -0.6)  # the first on top, and no room for more
    axes.set_xlabel("share of the threshold; at most 1 is reached")
    return svg(figure)


def share_of(one: Comparison) -> float | None:
    """How much of its threshold a figure takes up, at most 1 where it is reached; None where that
    says nothing, since one of them is 0 or missing."""
    if one.found is None or one.found <= 0 or one.value <= 0:
        return None
    return one.found / one.value if one.bound in ("<=", "<") else one.value / one.found


def _section(benchmark: Benchmark, result: Any) -> str:
    held = compared(benchmark, result["figures"])
    machine = result["machine"]
    seconds = f"{result['seconds']:.0f} s of {result['budget_seconds']} s"
    verdict = "missed" if problems(benchmark, result, "") else "reached"
    return (
        f"## {benchmark.name}\n\n{benchmark.says[0].upper()}{benchmark.says[1:]}. "
        f"**{verdict.capitalize()}.**\n\n{_table(held)}\n"
        f"`python {' '.join(result['command'])}`, {result['ended'][:10]}, commit "
        f"`{result['commit']}`, {seconds}; {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gb']} GB,\nload {machine['load'][0]} at the end, "
        f"Python {result['versions']['python']}, onnxruntime "
        f"{result['versions'].get('onnxruntime', 'none')}. "
        f"All figures: [{benchmark.name}.json](results/{benchmark.name}.json).\n"
    )


def _table(held: Iterable[Comparison]) -> str:
    rows = "".join(
        f"| {one.figure} | {shown(one.found)} | {_SIGNS[one.bound]} {shown(one.value)} | "
        f"{'yes' if one.reached else '**no**'} |\n"
        for one in held
    )
    return f"| figure | found | must be | reached |\n|---|---|---|---|\n{rows}"


def _waiting(benchmarks: Iterable[Benchmark]) -> str:
    rows = "".join(
        f"| {one.name} | {one.says} | {one.budget} s | {', '.join(one.needs) or '-'} |\n"
        for one in benchmarks
    )
    return f"| benchmark | measures | budget | needs |\n|---|---|---|---|\n{rows}"


def _left_out(apart: dict[LeftOut, Any]) -> str:
    rows = ["| benchmark | why | stored |\n|---|---|---|\n"]
    for one in LEFT_OUT:
        shown = "-"
        if apart.get(one) is not None:
            name = f"{one.name}.json"
            missed = [
                problem.removeprefix(f"{one.name}: ") for problem in problems(one, apart[one], name)
            ]
            verdict = "; ".join(missed) or ("reached" if one.thresholds else "no threshold")
            shown = f"[{name}](results/{name}): {verdict}"
        rows.append(f"| `{one.script}` | {one.reason} | {shown} |\n")
    return "".join(rows)
