"""Private rounds, killed (SIGKILL) before, inside and after journal transactions of every kind.

    python -m tests.server.private.secure_kill_points FOLDER GRAPH MOMENTS [KINDS]

GRAPH is "complete" or "ring", MOMENTS some of "before,inside,after" with commas between, KINDS some
of the kinds of transactions. Every run is a forked process that kills itself at one; another goes
on. Releases and rows must be
those of a run that nobody killed, to the bit. What devices sent under masks is planted: at no
moment may a masked change be found in the journal's files, and after the round neither boxes,
marks and shares nor the secrets that were restored. Prints the kinds of transactions as JSON, with
how many runs were killed at each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flwr.app import Message

from pocketquery.client.private.messages import Stage
from pocketquery.client.private.sharing import join as plain_join
from pocketquery.client.private.transport import read_secure_reply
from pocketquery.sdk import sqlite_file
from pocketquery.sdk.sqlite_file import transaction
from pocketquery.server.federation.orchestration import journal as journal_module
from pocketquery.server.federation.orchestration.federation import JOURNAL
from pocketquery.server.private import unmasking
from pocketquery_simulation.local_grid import Client, Fault, LocalGrid
from tests.kills import in_a_fork, killed
from tests.server.federation.chaos.kills import left_by
from tests.server.federation.small_federation import Files, Parts, opened, write_federation

GRAPHS: dict[str, dict[str, Any]] = {
    "complete": {"clients-per-round": 8, "over-selection": 1.5},
    "ring": {"clients-per-round": 12, "over-selection": 1.0, "secure-neighbours": 8},
}
OPTIONS: dict[str, Any] = {
    "secure": "on", "secure-least": 3, "rest": 1, "rounds": 2, "steps": 1,
    "optimizer": "fedavgm",
}  # fmt: skip
MOMENTS = ("before", "inside", "after")
KINDS = (
    "make the file", "begin", "ready", "deal", "boxes", "close stage 2", "close stage 3",
    "confirm", "close stage 4", "shares", "unmask", "close the round", "decide",
)  # fmt: skip

_SLICE = 24  # bytes of a planted secret that are looked for


class Killer:
    """Counts transactions and tells their kinds; kills at one of them."""

    def __init__(self, kill_at: int | None = None, moment: str = "") -> None:
        self.kinds: list[str] = []
        self._kill_at, self._moment = kill_at, moment
        self._statements: list[str] = []
        self._plain = transaction

    def install(self) -> None:
        for module in (journal_module, sqlite_file):  # the second makes the file
            vars(module)["transaction"] = self._transaction

    @contextlib.contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        self._statements = []
        connection.set_trace_callback(self._statements.append)
        self._reach("before")
        with self._plain(connection):
            yield connection
            self.kinds.append(kind_of(self._statements, self.kinds[-1:]))
            self._reach("inside", begun=True)
        self._reach("after", begun=True)

    def _reach(self, moment: str, *, begun: bool = False) -> None:
        number = len(self.kinds) if begun else len(self.kinds) + 1
        if (number, moment) == (self._kill_at, self._moment):
            os.kill(os.getpid(), signal.SIGKILL)


def kind_of(statements: list[str], before: list[str]) -> str:
    """What a transaction is, by what it writes and the kind of the one before."""
    said = " ".join(statements)
    for kind, part in (
        ("make the file", "PRAGMA user_version"),
        ("unmask", "DELETE FROM secure_shares WHERE"),
        ("close the round", "DELETE FROM nonces"),
        ("close stage 3", "INSERT INTO secure_sums"),
        ("deal", "UPDATE secure_members"),
        ("boxes", "INSERT INTO secure_boxes"),
        ("ready", "INSERT INTO secure_members"),
        ("confirm", "INSERT INTO secure_marks"),
        ("shares", "INSERT INTO secure_shares"),
    ):
        if part in said:
            return kind
    if "INTO secure_round" in said:  # a stage is closed, and nothing else is written
        return "close stage 4" if before == ["confirm"] else "close stage 2"
    return "begin" if "INTO open_round" in said else "decide"


def run(files: Files, work: Path, options: dict[str, Any]) -> None:
    """The rounds that are left; what devices send is planted in files beside the journal."""
    with opened(files, work, **options) as parts:
        grid = LocalGrid(_planting(parts, work / "planted"), _faults)
        parts.run(grid=grid)


def _faults(node: int, group: str) -> Fault:
    """In both rounds one device dies before it masks, and one before it confirms."""
    return {("3", 3): Fault.DIES, ("4", 5): Fault.DIES}.get((group[-1], node), Fault.NONE)


def _planting(parts: Parts, folder: Path) -> dict[int, Client]:
    """The devices; what they reply is kept in ``folder``, and so is every secret restored."""
    folder.mkdir(exist_ok=True)

    def join(*given: Any) -> bytes:
        secret = plain_join(*given)
        (folder / f"secret-{secret.hex()[:16]}").write_bytes(secret)
        return secret

    vars(unmasking)["join"] = join

    def planting(node: int) -> Client:
        def answer(message: Message) -> Message:
            reply = parts.devices[node](message)
            found = read_secure_reply(reply)
            if found.body and found.stage > Stage.OFFER:
                name = f"stage-{found.stage}-{message.metadata.group_id}-{node}"
                (folder / name).write_bytes(found.body)
            return reply

        return answer

    return {node: planting(node) for node in parts.devices}


def _pieces(data: bytes, prefix: int) -> Iterator[bytes]:
    """Slices of what is behind the first ``prefix`` bytes, which are no secret."""
    for start in range(prefix, len(data) - _SLICE + 1, max(_SLICE, len(data) // 8)):
        piece = data[start : start + _SLICE]
        if any(piece):
            yield piece


def search(work: Path, *, over: bool) -> None:
    """Whether the journal's files hold what they may not; nothing at all where all is ``over``."""
    held = {path.name: path.read_bytes() for path in work.glob(f"{JOURNAL}*")}
    for path in sorted((work / "planted").iterdir()):
        data, masked = path.read_bytes(), path.name.startswith(f"stage-{int(Stage.COLLECT)}")
        if not over and not masked:
            continue
        # beta and position; of a masked change also its marks, which may be there meanwhile
        prefix = 0 if path.name.startswith("secret") else 36
        if masked and not over:
            prefix = len(data) - 2000
        for piece in _pieces(data, prefix):
            for name, content in held.items():
                assert piece not in content, f"{path.name} is in {name}"


def held_boxes(work: Path) -> bool:
    """Whether boxes are in the journal's files: what is searched for is found where it is."""
    held = b"".join(path.read_bytes() for path in work.glob(f"{JOURNAL}*"))
    boxes = (work / "planted").glob(f"stage-{int(Stage.INVITE)}-*")
    return any(piece in held for path in boxes for piece in _pieces(path.read_bytes(), 36))


def main(folder: Path, graph: str, moments: list[str], chosen: list[str]) -> None:
    """Kill at one transaction of each kind that is ``chosen``, in the second round if there are."""
    options = OPTIONS | GRAPHS[graph]
    files = write_federation(folder / "files")

    def counted() -> None:
        killer = Killer()
        killer.install()
        run(files, folder / "whole", options)
        (folder / "kinds.json").write_text(json.dumps(killer.kinds))

    assert in_a_fork(counted) is not None
    wanted = left_by(folder / "whole")
    search(folder / "whole", over=True)
    kinds: list[str] = json.loads((folder / "kinds.json").read_text())
    assert set(kinds) == set(KINDS), set(kinds) ^ set(KINDS)
    tried = dict.fromkeys(chosen, 0)
    for kind in chosen:
        places = [place for place, one in enumerate(kinds, start=1) if one == kind]
        place = places[(3 * len(places)) // 4]
        for moment in moments:
            work = folder / f"{place}-{moment}"

            def run_killed(work: Path = work, place: int = place, moment: str = moment) -> None:
                Killer(place, moment).install()
                run(files, work, options)

            killed(run_killed)
            if (work / "planted").exists():
                search(work, over=False)
            assert held_boxes(work) or (kind, moment) != ("boxes", "after")
            ended = in_a_fork(lambda work=work: run(files, work, options))  # type: ignore[misc]
            assert ended is not None
            assert left_by(work) == wanted, f"killed {moment} {kind}, the rounds differ"
            search(work, over=True)
            tried[kind] += 1
    print(json.dumps(tried))


if __name__ == "__main__":
    kinds = sys.argv[4].split(",") if len(sys.argv) > 4 else list(KINDS)
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), kinds)
