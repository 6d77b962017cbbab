"""Writes a training step into a bundle many times, each time killed (SIGKILL) at another line.

    python -m tests.export.training_kill_points BUNDLE POINTS

``BUNDLE`` carries a step. After each kill the bundle must verify, with a step of its own encoder:
the one it had or the new one. Prints how many were which.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from pocketquery import sdk
from pocketquery.export.training_step.parity import StepAgreement
from pocketquery.export.training_step.training_step import TrainingStep, write_training_step
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import TRAINING_STATE_FILE, TRAINING_STEP_FILE
from tests.export.kill_points import LAST_LINES, renew
from tests.kills import killed, lines_of, spread

_MODULES = ("/bundle/writing.py", "/sdk/files.py", "/sdk/folders.py")


def main(bundle: Path, points: int) -> None:
    """Kill at ``points`` lines, half of them among the last."""
    old = bundle.with_name("old")
    renew(bundle, old)
    graph = Bundle.open(bundle).read(TRAINING_STEP_FILE)
    step = TrainingStep(graph, {}, StepAgreement(20, 0.0, 0.0, 0.5))
    changed = replace(step, state={"x": np.zeros(2, np.float32)})  # told by its second file

    def write() -> None:
        write_training_step(bundle, changed)

    lines = lines_of(write, _MODULES)
    seen: Counter[str] = Counter()
    for line in spread(lines, points, last=LAST_LINES):
        renew(old, bundle)
        killed(lambda: lines_of(write, _MODULES, line))  # noqa: B023
        sdk.verify(bundle)
        opened = Bundle.open(bundle)
        assert opened.read(TRAINING_STEP_FILE) == graph
        seen["new" if TRAINING_STATE_FILE in opened else "old"] += 1
        write()
        assert TRAINING_STATE_FILE in Bundle.open(bundle)
    print(dict(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
