"""From texts to a bundle in six lines of the shell, and one for an encoder to compare.

Each is run once; what they cost is kept.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pocketquery.sdk.files import write_atomic

__all__ = ["LINES", "run_lines", "spent"]

LINES: Mapping[str, str] = {
    "store": "mine store --documents texts/*.jsonl --output store",
    "vocabulary": "mine tokenizer --documents store --vocabulary 16000 --output vocabulary",
    "base": "pretrain --documents store --objective mlm --init mini --tokenizer vocabulary "
    "--steps 1200 --batch-size 32 --learning-rate 1e-3 --held-out 0 --output base",
    "encoder": "pretrain --documents store --objective ccp --set ccp.mlm_probability=0.25 "
    "--init base --steps 240 --batch-size 32 --learning-rate 5e-4 --held-out 0 --output encoder",
    "auto_mlm": "pretrain --documents store --objective auto_mlm --init base --steps 240 "
    "--batch-size 32 --learning-rate 5e-4 --held-out 0 --output auto_mlm",
    "student": "distill --teacher encoder --queries queries.tsv --student 2x128 --typos 0.3 "
    "--steps 300 --output student",
    "bundle": "export --student student --corpus corpus.jsonl --queries queries.tsv "
    "--license MPL-2.0 --output bundle",
}
"""What each line makes, and the line, as a reader of research/languages.md types it."""

_SPENT = "spent.json"


def run_lines(work: Path) -> None:
    """Run in ``work`` those lines whose output is not there.

    A line that was killed continues from its last checkpoint, or begins again where it has none.
    """
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    for output, line in LINES.items():
        if (work / output).exists():
            continue
        print(f"pocketquery {line}", flush=True)
        words = [word for part in shlex.split(line) for word in _expanded(part, work)]
        before = _children()
        subprocess.run(
            [sys.executable, "-m", "pocketquery.sdk", *words],
            cwd=work,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = spent(work) | {output: round(_children() - before, 1)}
        write_atomic(work / _SPENT, json.dumps(seconds))


def spent(work: Path) -> dict[str, float]:
    """Seconds of processor time of each line, of those that ran through in one piece."""
    path = work / _SPENT
    found: dict[str, float] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def _expanded(word: str, folder: Path) -> list[str]:
    """As a shell does it."""
    if "*" not in word:
        return [word]
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob(word))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
