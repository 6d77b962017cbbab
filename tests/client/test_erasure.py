"""Erasing and what was made of the queries, killed at any line: nothing of it is used, or stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pocketquery.client.private.rules import Trained
from pocketquery.client.private.state_file import SecureProgress, SecureState, StateFile
from pocketquery.client.round_memory import ClientState, RoundMemory
from pocketquery.client.store.file import ROUNDS, SECURE
from pocketquery.client.store.store import QueryStore
from pocketquery.sdk.errors import CorruptArtifactError
from tests.kills import killed, lines_of

MODULES = (
    *(f"/store/{name}.py" for name in ("store", "file", "stored_examples", "limits")),
    *("/round_memory.py", "/private/state_file.py", "/sdk/files.py"),
)
VALUE = np.frombuffer(b"\x12\x34\x56\x3f", np.float32)
SECRET = VALUE.tobytes() * 8  # as it would stand in a file
POINTS = pytest.mark.parametrize("points", [8, pytest.param(60, marks=pytest.mark.slow)])


def make(folder: Path) -> Path:
    """A store with queries, and what a round on them left."""
    folder.mkdir()
    with QueryStore.open(folder / "queries.sqlite") as store:
        store.give_consent()
        store.add("how to knit")
        store.add("how to purl")
    keep(folder, "0")
    assert SECRET in everything(folder)
    return folder


def keep(folder: Path, round_key: str) -> None:
    """A round's end."""
    memory = RoundMemory(folder / ROUNDS)
    with QueryStore.open(folder / "queries.sqlite") as store:
        epoch = store.epoch
    memory.attach(epoch)
    memory.nonce(round_key)
    memory.keep(round_key, ClientState({"a": np.repeat(VALUE, 500)}))
    StateFile(folder / SECURE).keep(in_a_private_round(epoch))


def in_a_private_round(epoch: str) -> SecureState:
    """A change of the same queries, which waits for its invitation."""
    trained = Trained(bytes(16), 0, "", "", 500, 1.0)
    change = np.repeat(VALUE, 500)
    return SecureState(SecureProgress.READY, epoch, trained, 0.0, {}, {}, change)


def erase(folder: Path) -> None:
    with QueryStore.open(folder / "queries.sqlite") as store:
        store.erase_all()


def forget(folder: Path) -> None:
    with QueryStore.open(folder / "queries.sqlite") as store:
        store.forget("how to knit")


def withdraw(folder: Path) -> None:
    with QueryStore.open(folder / "queries.sqlite") as store:
        store.withdraw_consent()


def destroy(folder: Path) -> None:
    QueryStore.destroy(folder / "queries.sqlite")


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def made_of_queries(folder: Path) -> bool:
    """Whether anything made of the queries is there."""
    found = [folder / name for name in (ROUNDS, SECURE)]
    return any(SECRET in file.read_bytes() for file in found if file.exists())


def gone_after_a_round(folder: Path, line: int) -> bool:
    """Whether the query is gone, and then what was made of it once a device looked."""
    with QueryStore.open(folder / "queries.sqlite") as store:
        gone = "how to knit" not in {example.query for example in store.examples()}
        memory = RoundMemory(folder / ROUNDS)
        memory.attach(store.epoch)  # as a device does before each round
        state = StateFile(folder / SECURE)
        found = state.load()
        if found is not None and found.epoch != store.epoch:  # as in each stage of a private one
            state.erase()
    if gone:
        assert memory.recall("1") == ClientState(), line
        assert SECRET not in everything(folder), line
    return gone


@POINTS
@pytest.mark.parametrize("act", [erase, forget, withdraw, destroy])
def test_erasing_that_is_killed_leaves_both_or_what_no_round_uses(
    act: Callable[[Path], None], points: int, tmp_path: Path
) -> None:
    count = lines_of(lambda: act(make(tmp_path / "count")), MODULES)
    making = lines_of(lambda: make(tmp_path / "made") and None, MODULES)
    seen = set()
    for point in range(points):
        folder = make(tmp_path / str(point))
        line = 1 + point * (count - making) // points
        killed(lambda: lines_of(lambda: act(folder), MODULES, line))  # noqa: B023
        left = made_of_queries(folder)  # also where no device is opened any more to look
        try:
            seen.add(gone := gone_after_a_round(folder, line))
            assert not (gone and left), line
        except CorruptArtifactError:  # half overwritten: no device opens it
            assert act is destroy
            assert not left, line
        act(folder)
        assert SECRET not in everything(folder), line
    assert seen == {True, False}


def test_opening_a_store_removes_yesterdays_private_round(
    tmp_path: Path,
) -> None:
    folder = make(tmp_path / "device")
    written = (folder / SECURE).stat().st_mtime
    for after, stays in ((86_399.0, True), (-86_399.0, True), (86_400.0, False)):
        with QueryStore.open(folder / "queries.sqlite", clock=lambda: written + after):  # noqa: B023
            assert (folder / SECURE).exists() == stays
    assert (folder / ROUNDS).exists()


@POINTS
def test_a_killed_end_leaves_nothing_unerased(points: int, tmp_path: Path) -> None:
    making = lines_of(lambda: make(tmp_path / "made") and None, MODULES)
    both = lines_of(lambda: keep(make(tmp_path / "count"), "1"), MODULES)
    for point in range(points):
        folder = make(tmp_path / str(point))
        line = 1 + point * (both - making) // points
        killed(lambda: lines_of(lambda: keep(folder, "1"), MODULES, line))  # noqa: B023
        assert RoundMemory(folder / ROUNDS).recall("2").residual, line
        assert StateFile(folder / SECURE).load() is not None, line
        erase(folder)
        assert SECRET not in everything(folder), line
