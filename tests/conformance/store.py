"""Write conformance/store: what happens to a query store, and what Python's holds after each step.

The clock jumps, stands still and is not set; queries are added, opened, forgotten and expire. In
``set_back.json.gz`` it is years ahead when a store is made, and put right later.
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from pocketquery.client.store.expiry import Age
from pocketquery.client.store.store import QueryStore

TARGET = Path(__file__).parents[2] / "conformance" / "store"
START = 1_780_000_000.0  # in 2026
DAY = 86_400.0
AHEAD = START + 5000 * DAY
QUERIES = ["oil crisis", "Oil  Crisis?", "how do plants make sugar", "Zürich", "東京", " ", "?!"]
LIMITS = {"max_rows": 6, "max_age_days": 30.0, "max_bytes": 220}
_ANSWERED = ("result", "consent", "renewed", "kept")  # what a step says of its result


def main() -> None:
    """Write everything anew."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, start, clock in (("store", START, _ticked), ("set_back", AHEAD, _set_back)):
        lives = [life(seed, start, clock) for seed in range(12)]
        found = {"limits": LIMITS, "lives": lives, "ages": ages(start, clock)}
        text = json.dumps(found, ensure_ascii=True, separators=(",", ":"))
        (TARGET / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _ticked(now: float, draw: random.Random) -> float:
    """What the clock shows next: a little later mostly, else anything."""
    step = draw.choice((0.0, 1.0, 30.0, 70.0, 3600.0, 5000.0, DAY, 3 * DAY, -50.0))
    return draw.choice((*[now + step] * 9, START, 0.0, 1000.0, START + 400 * DAY, 2e10))


def _set_back(now: float, draw: random.Random) -> float:
    """What a clock that was ahead shows next: it is put right, and seldom wrong again."""
    step = draw.choice((0.0, 30.0, 70.0, 3600.0, DAY / 2, DAY, 3 * DAY, -50.0))
    return draw.choice((*[now + step] * 16, START, START + 20 * DAY, 0.0, AHEAD))


def ages(start: float, clock: Callable[[float, random.Random], float]) -> list[Any]:
    """Readings of a clock, each with the counter after it."""
    draw, found = random.Random(1), []
    for _ in range(40):
        age, now, readings = Age(), start, []
        for _ in range(25):
            now, opening = clock(now, draw), draw.random() < 0.2
            age = age.at(now, 15 * DAY, opening=opening)
            readings.append([now, opening, [*astuple(age), age.stamp]])
        found.append(readings)
    return found


def life(seed: int, start: float, clock: Callable[[float, random.Random], float]) -> list[Any]:
    """Steps, each with what came back and with what is kept after it."""
    draw, steps = random.Random(seed), []
    now = start
    for _ in range(80):
        now = clock(now, draw)
        name = draw.choice(("add",) * 8 + ("opened",) * 3 + ("forget", "reopen", "other"))
        query = draw.choice(QUERIES)
        shown = [f"d{draw.randrange(4)}" for _ in range(draw.randrange(4))]
        step: dict[str, Any] = {"now": now, "do": name, "query": query}
        if name == "add":
            step |= {"shown": shown, "opened": draw.choice([None, *shown])}
        elif name == "opened":
            step["opened"] = f"d{draw.randrange(4)}"
        elif name == "other":
            step["do"] = draw.choice(("give", "give", "give", "withdraw", "erase"))
        steps.append(step)
    with tempfile.TemporaryDirectory() as folder:
        return lived(steps, Path(folder) / "store", start)


def lived(steps: Sequence[dict[str, Any]], path: Path, start: float | None = None) -> list[Any]:
    """The steps, done to a store at ``path``, with what comes back and what is kept after each.

    Args:
        steps: what they ask for; what they say of results is left aside.
        path: where the store is made.
        start: what the clock says as it is made; by default as at the first step.
    """
    now = steps[0]["now"] if start is None else start

    def opened() -> QueryStore:
        return QueryStore.open(
            path, max_rows=6, max_age_days=30.0, max_bytes=220, clock=lambda: now
        )

    store, found = opened(), []
    for asked in steps:
        step = {name: value for name, value in asked.items() if name not in _ANSWERED}
        now = step["now"]
        name, query, before = step["do"], step["query"], store.epoch
        if name == "add":
            step["result"] = store.add(query, step["shown"], step["opened"])
        elif name == "opened":
            step["result"] = store.record_opened(query, step["opened"])
        elif name == "forget":
            store.forget(query)
        elif name == "reopen":
            store.close()
            store = opened()
        else:
            {
                "give": store.give_consent,
                "withdraw": store.withdraw_consent,
                "erase": store.erase_all,
            }[name]()
        step |= {
            "consent": store.consent,
            "renewed": store.epoch != before,
            "kept": [[*row.values()] for row in store.export()],
        }
        found.append(step)
    store.close()
    return found


if __name__ == "__main__":
    main()
