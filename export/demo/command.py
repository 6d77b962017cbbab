"""``pocketquery demo``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pocketquery.sdk.commands import add_command

__all__ = ["demo"]

_EPILOG = """\
examples:
  pocketquery demo
  pocketquery demo --output demo --json

It leaves demo/bundle (what a device loads), demo/index (what it searches), demo/report.html and
demo/report.json. Nothing is downloaded. Run again, it reuses what is finished.
"""


def demo(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "demo",
        "Teacher, distillation, int8 export, index, evaluation and a few searches.",
        _EPILOG,
        _run,
    )
    parser.add_argument("--output", default="demo", metavar="FOLDER", help="default: demo")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")


def _run(arguments: argparse.Namespace) -> int:
    # torch, onnx and matplotlib come with these: only when the command runs.
    from pocketquery.export.demo.journey import run_demo
    from pocketquery.export.demo.report import report_page, results_table, searches_text
    from pocketquery.sdk.files import write_atomic

    output = Path(arguments.output)
    results = run_demo(output, say=_say, show_progress_bar=True)
    _say("6/6  Writing the report")
    write_atomic(output / "report.json", json.dumps(results.to_dict(), indent=2) + "\n")
    write_atomic(output / "report.html", report_page(results))
    if arguments.json:
        print(json.dumps(results.to_dict()))
        return 0
    print(f"\n{results_table(results)}\n\nA few searches:{searches_text(results)}\n")
    print(f"Open {output / 'report.html'}, or search yourself:")
    print(
        f'  pocketquery search --bundle {output}/bundle --index {output}/index "who found oxygen"'
    )
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
