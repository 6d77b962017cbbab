"""``pocketquery demo``."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.declaration import Option, Settings

__all__ = ["demo"]

_EPILOG = """\
examples:
  pocketquery demo
  pocketquery demo --output demo --json

It leaves demo/bundle (what a device loads), demo/index (what it searches), demo/report.html and
demo/report.json. Nothing is downloaded. Run again, it reuses what is finished.
"""


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Settings):
    """What ``pocketquery demo`` takes."""

    output: Annotated[str, "what it makes", Option("FOLDER")] = "demo"
    json: Annotated[bool, "print the report as one JSON object"] = False


def demo(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    add_settings_command(
        subparsers,
        "demo",
        "Teacher, distillation, int8 export, index, evaluation and a few searches.",
        _EPILOG,
        DemoOptions,
        _run,
    )


def _run(options: DemoOptions) -> int:
    # torch, onnx and matplotlib come with these: only when the command runs.
    from pocketquery.sdk.files import write_atomic
    from pocketquery_demo.journey import run_demo
    from pocketquery_demo.report import report_page, results_table, searches_text

    output = Path(options.output)
    results = run_demo(output, say=_say, show_progress_bar=True)
    _say("6/6  Writing the report")
    write_atomic(output / "report.json", json.dumps(results.to_dict(), indent=2) + "\n")
    write_atomic(output / "report.html", report_page(results))
    if options.json:
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
