"""Runs an operation on a query store many times, each time killed at another moment.

    python -m tests.client.store_kill_points OPERATION FOLDER POINTS

Every point is a forked process. One half is killed by a trace at a line of the store's modules, the
other by the kernel (SIGXFSZ) in the middle of a write, when SQLite's journal or file grows or is
written beyond a limit: so a write is torn too. After each, this process opens what is left, checks
that it is the state before or the one after and nothing between, that what was deleted is gone
from the folder to the byte, and that the operation can be done again. Prints how many were which.
"""

from __future__ import annotations

import resource
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pocketquery.client.store.store import QueryStore
from tests.kills import in_a_fork, killed, lines_of

ROWS = 60
NOW = 1_800_000_000.0
DAY = 86_400.0
_MODULES = tuple(f"/store/{name}.py" for name in ("store", "file", "stored_examples", "limits"))


def open_store(path: Path, now: float = NOW, rows: int = 1000) -> QueryStore:
    """The store as every operation opens it."""
    return QueryStore.open(path, max_rows=rows, max_age_days=10, clock=lambda: now)


def query(number: int) -> str:
    """A query whose bytes can be looked for."""
    return f"secret-{number:03d} " + "and what the user wanted to know " * 20


def make(path: Path) -> None:
    """A store of consent and :data:`ROWS` queries, half of them six days older."""
    with open_store(path, NOW - 6 * DAY) as store:
        store.give_consent()
        for number in range(ROWS // 2):
            store.add(query(number), ["a", "b"])
    with open_store(path, NOW - DAY) as store:
        for number in range(ROWS // 2, ROWS):
            store.add(query(number), ["a", "b"])


def add(path: Path) -> None:
    """One more, where it is not there yet."""
    with open_store(path) as store:
        if len(store) == ROWS:
            store.add(query(ROWS), ["a", "b"], "b")


def cap(path: Path) -> None:
    """Down to five."""
    open_store(path, rows=5).close()


def forget(path: Path) -> None:
    """All but one."""
    with open_store(path) as store:
        store.forget(query(7))


def expire(path: Path) -> None:
    """The older half is due."""
    for days in (3, 4, 4.5):  # the clock keeps to what it says
        open_store(path, NOW + days * DAY).close()


def withdraw(path: Path) -> None:
    """None, and no consent."""
    with open_store(path) as store:
        store.withdraw_consent()


def erase(path: Path) -> None:
    """None, and consent as before."""
    with open_store(path) as store:
        store.erase_all()


State = tuple[bool, tuple[str, ...]]
ALL = tuple(query(number) for number in range(ROWS))
BEFORE: State = (True, ALL)
OPERATIONS: dict[str, tuple[Callable[[Path], None], State]] = {
    "add": (add, (True, (*ALL, query(ROWS)))),
    "cap": (cap, (True, ALL[-5:])),
    "expire": (expire, (True, ALL[ROWS // 2 :])),
    "withdraw": (withdraw, (False, ())),
    "erase": (erase, (True, ())),
    "forget": (forget, (True, tuple(one for one in ALL if one != query(7)))),
    "make": (make, BEFORE),
}


def killed_in_write(operation: Callable[[Path], None], path: Path, limit: int) -> None:
    """Run ``operation`` in a process that is killed when it writes beyond ``limit`` of a file."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        operation(path)

    in_a_fork(limited)


def check(path: Path, states: set[State]) -> State:
    """The state of what is left at ``path``, which is one of ``states``; no other text is left."""
    with open_store(path, now=0.0) as store:  # no clock: nothing ages by being looked at
        state = (store.consent, tuple(example.query for example in store.examples()))
        assert state in states, (state[0], len(state[1]))
    left = b"".join(file.read_bytes() for file in path.parent.iterdir())
    for number in range(ROWS + 1):
        kept = query(number) in state[1]
        assert (query(number)[:10].encode() in left) == kept, number
    return state


def main() -> None:
    name, folder, points = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    operation, after = OPERATIONS[name]
    old = folder / "old"
    if name != "make":
        make(old)
    once = folder / "once"
    _renew(old, once)
    lines = lines_of(lambda: operation(once), _MODULES)
    size = 2 * max(once.stat().st_size, old.stat().st_size if old.exists() else 0)
    seen: Counter[str] = Counter()
    for point in range(points):
        path = folder / "killed" / "store"
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        _renew(old, path)
        if point % 2:
            line = 1 + point * lines // points
            killed(lambda: lines_of(lambda: operation(path), _MODULES, line))  # noqa: B023
        else:
            killed_in_write(operation, path, point * size // points)
        if name == "make":  # any number of rows is a state between
            seen["partly"] += 1
            open_store(path).close()
            continue
        state = check(path, {BEFORE, after})
        seen["before" if state == BEFORE else "after"] += 1
        operation(path)
        check(path, {after})
    print(dict(seen))


def _renew(old: Path, path: Path) -> None:
    if old.exists():
        shutil.copy(old, path)


if __name__ == "__main__":
    main()
