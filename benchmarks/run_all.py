"""All benchmarks one after the other, their results stored, and a page made of them.

    python benchmarks/run_all.py [NAME ...]   run those named, or all; store; write the page
    python benchmarks/run_all.py --check      measure nothing: do the stored figures hold?
    python benchmarks/run_all.py --page       write the page of what is stored
    python benchmarks/run_all.py --list       name, budget and needs of each

Which ones, with what options, budgets and thresholds: suite/table.py. Results are in
``docs/results/NAME.json``, the page is ``docs/results.md``. A run exits 1 where one of those it ran
missed a figure, or could not run; ``--check`` where a stored figure misses its threshold, a
benchmark has no stored result, or the page is not of what is stored. Measure on a machine with
nothing else to do: the load is stored with the figures.
"""

from __future__ import annotations

import argparse
import sys

from suite.page import PAGE, page, write_page
from suite.results import path_of, problems, read, stored, write
from suite.running import missing, run
from suite.table import BENCHMARKS, LEFT_OUT, ROOT, Benchmark, LeftOut


def main() -> int:
    """Run, store, print what was missed, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--check", action="store_true", help="only look at what is stored")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}")
    if options.list:
        for one in BENCHMARKS:
            print(f"{one.name:24} {one.budget:4} s  {', '.join(one.needs)}")
        return 0
    if options.check:
        return report(check())
    missed = []
    if not options.page:
        for name in options.names or known:
            missed += measure(known[name])
    write_page()
    return report(missed)


def measure(benchmark: Benchmark) -> list[str]:
    """Run one and store its result; what was wrong."""
    print(f"== {benchmark.name} (at most {benchmark.budget} s)", flush=True)
    if lacking := missing(benchmark):
        return [f"{benchmark.name}: not run; needs {'; '.join(lacking)}"]
    ran = run(benchmark)
    if ran.figures is None:
        return [f"{benchmark.name}: {ran.problem}; the stored result stays"]
    result = stored(benchmark, ran.figures, seconds=ran.seconds, status=ran.status)
    print(f"-> {write(benchmark, result).relative_to(ROOT)}, {ran.seconds:.0f} s", flush=True)
    return problems(benchmark, result, "")


def check() -> list[str]:
    """What is wrong with what is stored."""
    missed: list[str] = []
    rows: list[Benchmark | LeftOut] = [*BENCHMARKS, *(one for one in LEFT_OUT if one.thresholds)]
    for one in rows:
        missed += problems(one, read(one), str(path_of(one).relative_to(ROOT)))
    fresh = page(
        {one: read(one) for one in BENCHMARKS}, {one: read(one) for one in LEFT_OUT if one.stores}
    )
    if not PAGE.is_file() or PAGE.read_text("utf-8") != fresh:
        missed.append("docs/results.md is not of what is stored; run: benchmarks/run_all.py --page")
    return missed


def report(missed: list[str]) -> int:
    """Print what was found, and the exit code."""
    for problem in missed:
        print(f"MISSED: {problem}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
