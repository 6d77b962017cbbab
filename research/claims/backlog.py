"""Run what is still to be run of the claims, in the order of ``[[backlog]]`` in ``arms.toml``.

    python research/claims/backlog.py [--claims O5 ...] [--minutes 9] [--list]

Scores are published in ``research/reference/claims`` after every run, so that what is there can
be decided at any time. Killed and started again it goes on where it was. With ``--minutes`` it
stops at a checkpoint when they are over and exits 3:

    while chrt -i 0 nice -n 19 python research/claims/backlog.py --minutes 9; [ $? -eq 3 ]
    do :; done

A claim that is decided is not run further: a link that fails decides it whatever the others say.
``--list`` trains nothing and prints what is left, with the core-hours. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate import judge
from starts import Paused, Start, declared_entries, start_texts
from stored import PROFILE, decisions, definition
from study import Study

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from quality_sets import data_folder

__all__ = ["Waiting", "waiting"]

PAUSED = 3


@dataclass(frozen=True)
class Waiting:
    """An entry of the backlog that is not done.

    Attributes:
        place: its position among those that are not done, from 1.
        entry: its table in ``arms.toml``.
        runs: how many trainings it lacks.
        hours: of one core, that they take.
    """

    place: int
    entry: Mapping[str, Any]
    runs: int
    hours: float


def waiting(claims: Collection[str] = ()) -> Iterator[Waiting]:
    """What is not done, in order; what asks only about claims that are decided is.

    Args:
        claims: for these alone; none: for all.
    """
    lacking = [(entry, _missing(entry)) for entry in declared_entries("backlog")]
    asked = {claim for entry, runs in lacking if runs for claim in entry["claims"]}
    is_decided = {one.id for one in decisions(asked) if one.is_decided}
    left = [(entry, n) for entry, n in lacking if n and set(entry["claims"]) - is_decided]
    for place, (entry, runs) in enumerate(left, 1):
        if not claims or set(claims) & set(entry["claims"]):
            yield Waiting(place, entry, runs, round(runs * entry["minutes"] / 60, 1))


def _missing(entry: Mapping[str, Any]) -> int:
    if "start" in entry:
        start = Start(entry["start"])
        return int(not start.leg_folder(1).with_suffix(".gate.json").is_file())
    study = definition(entry["study"]).stored(PROFILE)
    try:
        study.begin_stored()
    except SystemExit:  # no start has passed, or no rate is chosen: nothing has been run
        return sum(len(study.seeds(arm)) for arm in entry["arms"])
    return sum(len(study.missing(arm)) for arm in entry["arms"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, help="stop at a checkpoint after so many")
    parser.add_argument("--claims", nargs="+", default=(), metavar="O5", help="these alone")
    parser.add_argument("--list", action="store_true", help="print what is left, train nothing")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    options = parser.parse_args()
    if not options.list:
        ends = None if options.minutes is None else time.monotonic() + 60 * options.minutes
        try:
            _run(data_folder(options.data), options.claims, ends)
        except Paused:
            return PAUSED
    left = list(waiting(options.claims))
    for one in left:
        named = one.entry.get("start") or f"{one.entry['study']} {' '.join(one.entry['arms'])}"
        claims = ", ".join(one.entry["claims"])
        print(f"{one.place}. {claims}: {named}, {one.runs} runs, {one.hours} core-hours")
    hours = round(sum(one.hours for one in left), 1)
    print(json.dumps({"runs": sum(one.runs for one in left), "core_hours": hours}))
    return 0


def _run(data: Path, claims: Collection[str], ends: float | None) -> None:
    studies: dict[str, Study] = {}
    done: list[Mapping[str, Any]] = []
    while left := [one.entry for one in waiting(claims) if one.entry not in done]:
        entry = left[0]
        done.append(entry)
        if "start" in entry:
            _make_start(Start(entry["start"]), data, ends)
            continue
        name = entry["study"]
        if name not in studies:
            made = definition(name)
            studies[name] = made.study(name, made.corpus(data), PROFILE)
        study = studies[name]
        study.ends = ends
        try:
            study.begin()
        except SystemExit as refused:
            print(f"{', '.join(entry['claims'])}: {refused}", flush=True)
            continue
        for seed, arm in study.runs(entry["arms"]):
            study.run(arm, seed)
            study.publish()


def _make_start(start: Start, data: Path, ends: float | None) -> None:
    """The first leg, its gate, and where it passes its copy in the repository."""
    texts, _ = start_texts(start.name, data)
    start.make_vocabulary(texts)
    minutes = None if ends is None else (ends - time.monotonic()) / 60
    if not start.finished() and not start.train(1, texts, minutes):
        raise Paused
    if judge(start, data)["passed"]:
        start.publish(1)


if __name__ == "__main__":
    raise SystemExit(main())
