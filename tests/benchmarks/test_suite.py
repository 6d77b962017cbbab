"""The table of the benchmarks, their stored results, and the check that holds one to the other."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"


@pytest.fixture(autouse=True)
def as_a_script() -> Iterator[None]:
    """As where the benchmarks are run from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(FOLDER), *sys.path])
        yield


def a_result(**changes: Any) -> dict[str, Any]:
    """A stored result of the benchmark of aggregation's memory."""
    from suite.results import stored
    from suite.table import BENCHMARKS

    (benchmark,) = (one for one in BENCHMARKS if one.name == "aggregation")
    figures = {"memory_of_rounds": 1.01, "memory_of_journal": 1.1, **changes}
    return stored(benchmark, figures, seconds=1.0, status=0)


def test_every_benchmark_is_listed_or_left_out_with_a_reason() -> None:
    from suite.table import BENCHMARKS, LEFT_OUT, MOST_SECONDS

    scripts = {
        path.name
        for path in FOLDER.glob("*.py")
        if "__main__" in path.read_text("utf-8") and path.name != "run_all.py"
    }
    listed = [one.script for one in BENCHMARKS] + [one.script for one in LEFT_OUT]
    assert sorted(listed) == sorted(scripts)
    assert all(one.reason for one in LEFT_OUT)
    assert all(one.thresholds and one.budget > 0 for one in BENCHMARKS)
    assert sum(one.budget for one in BENCHMARKS) <= MOST_SECONDS


def test_options_and_figures_of_the_table_are_those_of_the_scripts() -> None:
    from suite.table import BENCHMARKS

    for one in BENCHMARKS:
        source = (FOLDER / one.script).read_text("utf-8")
        source += re.sub(r"(?<=\d)_(?=\d)", "", source)  # 100_000 is printed as 100000
        assert all(f'"{word}"' in source for word in one.options if word.startswith("--")), one
        for threshold in one.thresholds:
            for key in threshold.figure.split("/"):
                stem = re.sub(r"_(3x384|2x128|rounds|journal)$", "", key)  # made of parts there
                known = key in ("*", "default") or stem in source
                assert known, f"{one.name} prints no {threshold.figure}"


def test_stored_results_are_of_the_schema() -> None:
    from suite.results import SCHEMA, compared, read
    from suite.table import BENCHMARKS, LEFT_OUT, Benchmark, LeftOut

    names = set(a_result())
    every: list[Benchmark | LeftOut] = [*BENCHMARKS, *(one for one in LEFT_OUT if one.stores)]
    assert {path.stem for path in (ROOT / "docs" / "results").glob("*.json")} <= {
        one.name for one in every
    }
    for one in every:
        result = read(one)
        if result is None:
            continue
        assert result.keys() == names
        assert (result["schema"], result["name"]) == (SCHEMA, one.name)
        assert re.fullmatch(r"[0-9a-f]{12}\+?", result["commit"])
        assert result["figures"]
        if isinstance(one, Benchmark) or result["machine"] is not None:  # older ones did not say
            of_the_machine = {"processor", "cores", "memory_gb", "system", "load"}
            assert result["machine"].keys() == of_the_machine
            assert {"python", "pocketquery", "numpy"} <= result["versions"].keys()
        if isinstance(one, Benchmark):
            assert result["seconds"] > 0
        held = [
            {**found._asdict(), "reached": found.reached}
            for found in compared(one, result["figures"])
        ]
        assert result["thresholds"] == held, f"{one.name}: other thresholds; measure it again"
        assert str(ROOT) not in json.dumps(result)


def test_the_page_is_made_of_what_is_stored() -> None:
    from suite.page import PAGE, page
    from suite.results import read
    from suite.table import BENCHMARKS, LEFT_OUT

    apart = {one: read(one) for one in LEFT_OUT if one.stores}
    assert PAGE.read_text("utf-8") == page({one: read(one) for one in BENCHMARKS}, apart)


def test_a_missed_figure_is_a_problem_and_a_missing_result_too() -> None:
    from suite.results import problems
    from suite.table import BENCHMARKS

    (benchmark,) = (one for one in BENCHMARKS if one.name == "aggregation")
    assert problems(benchmark, a_result(), "x.json") == []
    missed = a_result(memory_of_journal=1.2)
    assert not missed["reached"]
    assert problems(benchmark, missed, "") == [
        "aggregation: memory_of_journal is 1.2, must be <= 1.1"
    ]
    (problem,) = problems(benchmark, None, "docs/results/aggregation.json")
    assert "no stored result docs/results/aggregation.json" in problem
    (problem,) = problems(benchmark, {"schema": "another"}, "x.json")
    assert "no result of the schema" in problem
    itself = {**a_result(), "reached": False}  # by its exit status
    assert "itself" in problems(benchmark, itself, "")[0]
    absent = copy.deepcopy(a_result())
    del absent["figures"]["memory_of_rounds"]
    assert "memory_of_rounds is not there" in problems(benchmark, absent, "")[0]
    assert "missed this" in problems(benchmark, a_result(missed=["this"]), "")[0]


@pytest.mark.parametrize(
    ("bound", "found", "reached"),
    [
        ("<=", 1.0, True), ("<=", 1.1, False), ("<", 1.0, False), ("<", 0.9, True),
        (">=", 1.0, True), (">=", 0.9, False), (">", 1.0, False), (">", 1.1, True),
        ("<=", float("nan"), False), (">=", float("nan"), False),
    ],
)  # fmt: skip
def test_thresholds_by_hand(bound: Any, found: float, reached: bool) -> None:
    from suite.table import Threshold

    figures = {"a": {"x": [found, 5], "y": True}, "b": 3}
    (held,) = Threshold("a/x/0", bound, 1).compared(figures)
    assert held.figure == "a/x/0"
    assert held.reached is reached
    both = Threshold("*/x/*", "<=", 9).compared(figures)
    assert [one.figure for one in both] == ["a/x/0", "a/x/1"]
    (lost,) = Threshold("a/z", bound, 1).compared(figures)
    assert lost.found is None
    assert not lost.reached


def test_a_benchmark_is_run_and_its_last_line_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way, with a benchmark of two lines."""
    import run_all
    from suite import page, results, running
    from suite.table import Benchmark, Threshold

    (tmp_path / "benchmarks").mkdir()
    script = tmp_path / "benchmarks" / "small.py"
    small = Benchmark("small.py", "one figure", 60, (Threshold("share", "<=", 0.5),))
    for module in (page, results, running):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(run_all, "ROOT", tmp_path)
    monkeypatch.setattr(results, "FOLDER", tmp_path / "docs" / "results")
    script.write_text(
        "import json, os, sys\nprint('so far')\n"
        "print(json.dumps({'share': 0.25, 'place': os.getcwd() + '/x'}))\n"
    )
    assert run_all.measure(small) == []
    kept = results.read(small)
    assert kept["figures"] == {"share": 0.25, "place": "x"}
    assert kept["reached"]
    script.write_text("import sys\nprint('{\"share\": 0.75}')\nsys.exit(1)\n")
    assert run_all.measure(small) == ["small: share is 0.75, must be <= 0.5"]
    script.write_text("raise SystemExit('broken')\n")
    assert run_all.measure(small) == ["small: no figures; exit status 1; the stored result stays"]
    assert results.read(small)["figures"] == {"share": 0.75}
    wanting = dataclasses.replace(small, needs=("demo",))
    assert run_all.measure(wanting) == ["small: not run; needs make demo"]
    text = page.page({small: kept}, {})
    assert "| share | 0.25 | at most 0.5 | yes |" in text
    assert page.plot({small: kept}).startswith("<svg")


def test_the_check_measures_nothing_and_says_what_is_missed() -> None:
    command = [sys.executable, "benchmarks/run_all.py", "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    said = checked.stdout.splitlines()
    assert checked.returncode == (1 if said else 0), checked.stderr
    assert all(line.startswith("MISSED: ") for line in said)
