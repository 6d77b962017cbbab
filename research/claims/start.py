"""The starts of the claims' studies: train one, and hold it to its gate.

    python research/claims/start.py train [--start english] [--legs 1] [--minutes 9]
    python research/claims/start.py gate [--start english]
    python research/claims/start.py publish [--start english]

``train`` goes on where it was, killed or not; with ``--minutes`` it stops at a checkpoint when they
are over and exits 3, so that jobs can be short:

    while python research/claims/start.py train --minutes 9; [ $? -eq 3 ]; do :; done

``gate`` measures every finished leg until one passes, keeps what it measured, and exits 1 where
none does. No study runs before its start has passed. ``publish`` copies the leg that passed to
``research/reference/starts``, where it is found by whoever has not trained it. The last line of
each is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from gate import checked_leg, judge, why_not
from starts import Start, start_names, start_texts

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from quality_sets import data_folder

PAUSED = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("train", "gate", "publish"))
    parser.add_argument("--start", choices=start_names(), default="english")
    parser.add_argument("--legs", type=int, default=1, help="train so many of them (default: 1)")
    parser.add_argument("--minutes", type=float, help="stop at a checkpoint after so many")
    parser.add_argument("--device", default="cpu", help="to compute on (default: cpu)")
    parser.add_argument("--workers", type=int, default=0, help="processes that prepare batches")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    options = parser.parse_args()
    start = Start(options.start)
    data = data_folder(options.data)
    if options.command == "gate":
        found = judge(start, data, options.device)
        if not found["passed"]:
            print(why_not(start), file=sys.stderr)
        print(json.dumps(found))
        return 0 if found["passed"] else 1
    if options.command == "publish":
        leg = checked_leg(start)
        print(json.dumps({"start": start.name, "leg": leg, "folder": str(start.publish(leg))}))
        return 0
    if not 1 <= options.legs <= len(start.legs):
        parser.error(f"--legs is {options.legs}; expected 1 to {len(start.legs)}, as are declared")
    runs_on = {"device": options.device, "workers": options.workers}
    return _train(start, data, options.legs, options.minutes, runs_on)


def _train(
    start: Start, data: Path, legs: int, minutes: float | None, runs_on: dict[str, Any]
) -> int:
    began, used = time.monotonic(), time.process_time()
    texts, _ = start_texts(start.name, data)
    start.make_vocabulary(texts)
    ended = True
    before = _steps(start)
    while ended and start.finished() < legs:
        left = None if minutes is None else minutes - (time.monotonic() - began) / 60
        ended = start.train(start.finished() + 1, texts, left, **runs_on)
    done = _steps(start)
    seconds = time.process_time() - used
    print(
        json.dumps(
            {
                "start": start.name,
                "legs_finished": start.finished(),
                "steps": done,
                "of": sum(int(leg["steps"]) for leg in start.legs[:legs]),
                "core_seconds_a_step": round(seconds / max(done - before, 1), 3),
            }
        )
    )
    return 0 if ended else PAUSED


def _steps(start: Start) -> int:
    """Of all legs together, as far as checkpoints and finished legs tell."""
    finished = start.finished()
    done = sum(int(leg["steps"]) for leg in start.legs[:finished])
    return done + (start.steps_done(finished + 1) if finished < len(start.legs) else 0)


if __name__ == "__main__":
    raise SystemExit(main())
