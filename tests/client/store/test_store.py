from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.store.file import ROUNDS
from pocketquery.client.store.limits import GivenLimits, StoreLimits, read_limits
from pocketquery.client.store.store import Example, QueryStore
from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    InvalidInputError,
    PocketQueryError,
    UnsupportedVersionError,
)
from tests.kills import printed

NOW = 1_800_000_000.0
DAY = 86_400.0
texts = st.text(max_size=30)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queries.db"


@pytest.fixture
def store(path: Path, clock: Clock) -> Iterator[QueryStore]:
    with QueryStore.open(path, max_rows=100, max_age_days=10, clock=clock) as opened:
        opened.give_consent()
        yield opened


def queries(store: QueryStore) -> list[str]:
    return [example.query for example in store.examples()]


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


# Consent


def test_nothing_is_kept_without_consent(path: Path) -> None:
    with QueryStore.open(path) as store:
        assert not store.consent
        assert store.add("how to knit") is False
        assert store.examples() == []
        assert len(store) == 0
        assert bool(store)
    assert b"knit" not in everything(path.parent)


def test_consent_and_queries_outlive_the_process(path: Path) -> None:
    with QueryStore.open(path) as store:
        store.give_consent()
        assert store.add("how to knit", ["a", "b"], "b")
    with QueryStore.open(path) as store:
        assert store.consent
        assert store.examples() == [Example("how to knit", ("a", "b"), "b")]


def purge_by_withdrawal(store: QueryStore) -> None:
    store.withdraw_consent()
    assert not store.consent
    assert store.add("knitting again") is False


def purge_by_erasing(store: QueryStore) -> None:
    store.erase_all()
    assert store.consent


@pytest.mark.parametrize("purge", [purge_by_withdrawal, purge_by_erasing])
def test_a_purge_leaves_no_byte(
    store: QueryStore, path: Path, purge: Callable[[QueryStore], None]
) -> None:
    rng = random.Random(0)
    for number in range(150):
        store.add(f"knit{number} " + "x" * rng.randrange(900), [f"wool{i}" for i in range(9)])
        store.record_opened(f"knit{number} ", "wool3")
    assert b"knit" in everything(path.parent)
    purge(store)
    assert store.examples() == []
    left = everything(path.parent)
    assert b"knit" not in left
    assert b"wool" not in left
    assert path.stat().st_size < 30_000


def test_one_query_can_be_forgotten_however_it_was_typed(store: QueryStore, path: Path) -> None:
    for query in ("How to Knit?", "how  to knit", "how to purl", "how to knit socks", "?!"):
        store.add(query, ["wool"])
    store.forget("how to knit")
    store.forget("never asked")
    assert queries(store) == ["how to purl", "how to knit socks", "?!"]
    store.forget(" ?! ")
    assert queries(store) == ["how to purl", "how to knit socks"]
    left = everything(path.parent)
    assert b"How to Knit" not in left
    assert b"how  to knit" not in left
    with pytest.raises(InvalidInputError, match="the query is a int"):
        store.forget(7)  # type: ignore[arg-type]


def test_an_epoch_ends_with_erasing_alone(store: QueryStore, path: Path, clock: Clock) -> None:
    epochs = [store.epoch]
    for number in range(120):  # of which twenty go
        store.add(str(number))
    clock.now += DAY
    QueryStore.open(path, max_rows=100, max_age_days=10, clock=clock).close()
    assert store.epoch == epochs[0]
    for erase in (store.erase_all, store.withdraw_consent, lambda: store.forget("7")):
        erase()
        epochs.append(store.epoch)
    QueryStore.destroy(path)
    epochs.append(store.epoch)
    assert len(set(epochs)) == 5


def test_erasing_takes_what_was_kept_between_rounds_along(store: QueryStore, path: Path) -> None:
    rounds, half = (path.with_name(name) for name in (ROUNDS, f".{ROUNDS}.0123abcd.tmp"))
    for erase in (
        store.erase_all,
        store.withdraw_consent,
        lambda: store.forget("knit"),
        lambda: QueryStore.destroy(path),
    ):
        rounds.write_bytes(b"residual")
        half.write_bytes(b"residual")
        erase()
        assert b"residual" not in everything(path.parent)


def test_consent_can_be_given_again(store: QueryStore) -> None:
    store.withdraw_consent()
    store.withdraw_consent()
    store.give_consent()
    assert store.add("how to purl")
    assert queries(store) == ["how to purl"]


# What is kept


def test_the_order_is_that_of_the_searches_and_a_limit_takes_the_newest(store: QueryStore) -> None:
    for number in range(5):
        store.add(str(number))
    assert queries(store) == ["0", "1", "2", "3", "4"]
    assert [example.query for example in store.examples(2)] == ["3", "4"]
    assert len(store.examples(50)) == 5
    for limit in (0, -1, 1.5):
        with pytest.raises(InvalidInputError, match="limit is"):
            store.examples(limit)  # type: ignore[arg-type]


def test_what_is_opened_later_is_noted_with_the_newest_search(store: QueryStore) -> None:
    store.add("knit", ["a", "b"])
    store.add("knit", ["b", "c"])
    assert store.record_opened("knit", "c")
    assert not store.record_opened("knit", "a")  # the newest search did not show it
    assert not store.record_opened("purl", "a")
    assert store.examples() == [Example("knit", ("a", "b")), Example("knit", ("b", "c"), "c")]


def test_the_user_can_read_all_of_it(store: QueryStore, clock: Clock) -> None:
    store.add("knit", ["a", "b"], "a")
    clock.now = 0.0
    store.add("purl")
    exported = store.export()
    assert exported == [
        {"query": "knit", "shown": ["a", "b"], "opened": "a", "time": NOW},
        {"query": "purl", "shown": [], "opened": None, "time": None},
    ]
    assert json.loads(json.dumps(exported)) == exported


@pytest.mark.parametrize("query", ["", "  ", "\n\t"])
def test_a_blank_query_is_not_kept(store: QueryStore, query: str) -> None:
    assert not store.add(query)
    assert len(store) == 0


@settings(max_examples=40, deadline=None)
@given(texts, st.lists(texts, max_size=4), st.randoms())
def test_any_text_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, query: str, shown: list[str], rng: random.Random
) -> None:
    opened = rng.choice([None, *shown])
    with QueryStore.open(tmp_path_factory.mktemp("store") / "q") as store:
        store.give_consent()
        try:
            kept = store.add(query, shown, opened)
        except InvalidInputError:
            assert any("\ud800" <= c <= "\udfff" for c in query + "".join(shown))
            kept = False
        expected = [Example(query, tuple(shown), opened)] if kept else []
        assert kept <= bool(query.strip())
        assert store.examples() == expected


@pytest.mark.parametrize(
    ("query", "shown", "opened", "message"),
    [
        (b"knit", [], None, "the query is a bytes"),
        ("half \ud83d", [], None, "lone surrogate"),
        ("knit", "ab", None, "shown is a str, expected a list of ids"),
        ("knit", [1], None, r"shown\[0\] is a int"),
        ("knit", ["a"], "b", "opened is 'b', expected one of the 1 shown ids"),
        ("knit", ["a"], 7, "opened is a int"),
    ],
)
def test_what_is_no_search_is_refused(
    store: QueryStore, query: str, shown: list[str], opened: str, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        store.add(query, shown, opened)
    assert len(store) == 0


# Limits


def test_of_too_many_queries_the_oldest_go(store: QueryStore) -> None:
    for number in range(120):
        store.add(f"query {number}")
    assert queries(store) == [f"query {number}" for number in range(20, 120)]


def test_what_goes_is_overwritten_at_once(store: QueryStore, path: Path) -> None:
    for number in range(101):
        store.add(f"secret {number:03d}")
    left = everything(path.parent)
    assert b"secret 000" not in left
    assert b"secret 001" in left


def test_of_too_much_text_the_oldest_go_and_what_never_fits_is_not_kept(path: Path) -> None:
    with QueryStore.open(path, max_bytes=1000) as store:
        store.give_consent()
        assert store.add("first " + "x" * 594, ["é"])
        assert store.add("second " + "x" * 300)
        assert store.add("third " + "x" * 300)
        assert [query.split()[0] for query in queries(store)] == ["second", "third"]
        assert not store.add("é" * 501)
        assert len(store) == 2
    with QueryStore.open(path, max_bytes=400) as store:
        assert [query.split()[0] for query in queries(store)] == ["third"]


def test_an_opening_that_deletes_rewrites_the_file(store: QueryStore, path: Path) -> None:
    for number in range(100):
        store.add(f"{number} " + "x" * 900)
    store.close()
    assert path.stat().st_size > 90_000
    QueryStore.open(path, max_rows=5).close()
    assert path.stat().st_size < 40_000


def test_many_deletions_leave_no_copies_between_pages(path: Path, clock: Clock) -> None:
    rng = random.Random(1)
    with QueryStore.open(path, max_rows=20, clock=clock) as store:
        store.give_consent()
        for number in range(400):
            store.add(f"secret{number:04d} " + "x" * rng.randrange(900))
    with QueryStore.open(path, max_rows=20, clock=clock) as store:
        kept = {query[:10].encode() for query in queries(store)}
    left = everything(path.parent)
    assert {
        f"secret{n:04d}".encode() for n in range(400) if f"secret{n:04d}".encode() in left
    } == kept


def test_the_apps_limits_hold_for_every_opening(path: Path, clock: Clock) -> None:
    """A SuperNode and ``pocketquery join`` open the app's store and know nothing of its limits."""
    with QueryStore.open(path, max_bytes=8 << 20, max_age_days=200, clock=clock) as app:
        app.give_consent()
        for number in range(3):
            app.add(str(number) * (2 << 20))
        clock.now += 100 * DAY
        app.add("of today")
    for _ in range(3):
        clock.now += DAY
        with QueryStore.open(path, clock=clock) as node:
            assert len(node) == 4
    with QueryStore.open(path, clock=clock) as node:
        QueryStore.open(path, max_age_days=7, clock=clock).close()  # the app's next release
        assert queries(node) == ["of today"]
        QueryStore.open(path, max_bytes=3, clock=clock).close()
        assert not node.add("more than three bytes")
    with QueryStore.open(path, clock=clock) as node:
        node.add("p", [])  # of which the list is two bytes
        assert queries(node) == ["p"]


def test_a_limit_outlives_an_erasure_and_a_new_file(path: Path, clock: Clock) -> None:
    with QueryStore.open(path, max_rows=2, clock=clock) as app:
        app.give_consent()
        app.erase_all()
        app.withdraw_consent()
        app.give_consent()
        with QueryStore.open(path, clock=clock) as node:
            for number in range(3):
                node.add(str(number))
            assert queries(node) == ["1", "2"]
        QueryStore.destroy(path)
        app.give_consent()
        for number in range(2):
            app.add(str(number))
        with QueryStore.open(path, clock=clock) as node:
            node.add("2")
            assert queries(node) == ["1", "2"]


def test_nobodys_limits_are_two_thousand_queries_and_ninety_days(path: Path, clock: Clock) -> None:
    store = QueryStore.open(path, clock=clock)
    with store, store._file.transaction("BEGIN") as connection:
        found = read_limits(connection, GivenLimits())
        assert found == StoreLimits(rows=2000, bytes=4 << 20, age=90 * DAY)
        partly = read_limits(connection, GivenLimits(age=7 * DAY))
        assert partly == StoreLimits(rows=2000, bytes=4 << 20, age=7 * DAY)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_rows": 0},
        {"max_rows": 2.5},
        {"max_bytes": -1},
        {"max_age_days": 0},
        {"max_age_days": float("nan")},
        {"max_age_days": 1e9},
    ],
)
def test_a_limit_that_is_none_is_refused(path: Path, limits: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(limits))):
        QueryStore.open(path, **limits)  # type: ignore[arg-type]


# Expiry


def test_a_query_expires_and_its_bytes_go(store: QueryStore, path: Path, clock: Clock) -> None:
    store.add("knit")
    clock.now += 4 * DAY
    store.add("purl")
    clock.now += 4 * DAY
    store.add("crochet")
    clock.now += 4 * DAY
    store.add("tat")
    clock.now += DAY  # and the clock keeps to what it says
    assert queries(store) == ["purl", "crochet", "tat"]  # not given out, deleted yet or not
    QueryStore.open(path, max_age_days=10, clock=clock).close()
    assert b"knit" not in everything(path.parent)


def test_one_jump_of_the_clock_loses_nothing_new(store: QueryStore, clock: Clock) -> None:
    store.add("knit")
    for jump in (NOW + 20 * 365 * DAY, NOW, 0.0, NOW - 300 * DAY, NOW):
        clock.now = jump
        store.add(f"at {jump}")
        assert "knit" in queries(store)


def test_a_clock_that_jumps_back_keeps_nothing_for_ever(store: QueryStore, clock: Clock) -> None:
    clock.now = NOW + 20 * 365 * DAY
    store.add("knit")
    clock.now = NOW
    for _ in range(11):
        store.add("another")
        clock.now += DAY
    assert "knit" not in queries(store)


def test_after_a_long_absence_two_openings_expire_all(path: Path, clock: Clock) -> None:
    with QueryStore.open(path, max_age_days=10, clock=clock) as store:
        store.give_consent()
        store.add("knit")
    counts = []
    for _ in range(3):
        clock.now += 400 * DAY
        with QueryStore.open(path, max_age_days=10, clock=clock) as store:
            counts.append(len(store))
    assert counts == [1, 1, 0] or counts == [1, 0, 0]
    assert b"knit" not in everything(path.parent)


def test_a_clock_that_was_never_set_neither_loses_nor_fails(path: Path) -> None:
    for now in (0.0, float("nan"), float("inf"), -5.0):
        with QueryStore.open(path, clock=lambda now=now: now) as store:  # type: ignore[misc]
            store.give_consent()
            assert store.add("knit")
    with QueryStore.open(path) as store:
        assert len(store) == 4


# Others at the same file


def _add_many(path: Path, name: str, count: int) -> None:
    with QueryStore.open(path, max_rows=1000) as store:
        for number in range(count):
            store.add(f"{name} {number}")


def test_two_processes_keep_all_of_both(path: Path) -> None:
    with QueryStore.open(path, max_rows=1000) as store:
        store.give_consent()
        context = multiprocessing.get_context("spawn")
        others = [context.Process(target=_add_many, args=(path, name, 40)) for name in "ab"]
        for other in others:
            other.start()
        for number in range(40):
            store.add(f"c {number}")
        for other in others:
            other.join()
            assert other.exitcode == 0
        for name in "abc":
            mine = [query for query in queries(store) if query.startswith(name)]
            assert mine == [f"{name} {number}" for number in range(40)]


def test_threads_may_share_a_store(store: QueryStore) -> None:
    def work(name: str) -> None:
        for number in range(20):
            store.add(f"{name} {number}")
            store.examples()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(queries(store)) == sorted(f"{name} {n}" for name in "abc" for n in range(20))


def test_consent_withdrawn_elsewhere_is_seen_at_once(store: QueryStore, path: Path) -> None:
    store.add("knit")
    with QueryStore.open(path) as other:
        other.withdraw_consent()
    assert not store.consent
    assert not store.add("purl")
    assert store.examples() == []


def test_a_store_destroyed_elsewhere_has_no_consent(store: QueryStore, path: Path) -> None:
    store.add("knit")
    QueryStore.destroy(path)
    assert not path.exists()
    assert not store.consent
    assert store.examples() == []
    QueryStore.destroy(path)
    QueryStore.destroy(path)  # none is fine too


def test_a_held_file_is_waited_for_and_then_named(
    store: QueryStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketquery.client.store.file._WAIT_SECONDS", 0.1)
    with QueryStore.open(path) as impatient:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ArtifactError, match=r"queries\.db.*locked.*nothing was changed"):
            impatient.add("knit")
        holder.close()
        assert impatient.add("knit")


# Files that are none, disks that are full


def test_only_its_owner_may_read_it(store: QueryStore, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_store_that_others_may_read_is_its_owners_alone_once_it_is_opened(path: Path) -> None:
    with QueryStore.open(path) as store:
        store.give_consent()
    journal = path.with_name(path.name + "-wal")
    journal.touch(0o644)
    path.chmod(0o644)
    with QueryStore.open(path) as store:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        if journal.exists():
            assert stat.S_IMODE(journal.stat().st_mode) == 0o600
        modes = []
        with store._file.transaction() as connection:
            connection.execute("UPDATE state SET consent = 0")
            modes = [stat.S_IMODE(one.stat().st_mode) for one in path.parent.glob("*-journal")]
        assert set(modes) <= {0o600}


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"nowhere.*expected a file in a folder"):
        QueryStore.open(tmp_path / "nowhere" / "q")
    with pytest.raises(ArtifactError, match="expected a file"):
        QueryStore.open(tmp_path)


def test_a_closed_store_says_so(store: QueryStore) -> None:
    store.close()
    store.close()
    with pytest.raises(InvalidInputError, match="closed; open it again"):
        store.add("knit")


def test_another_programs_database_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(CorruptArtifactError, match="another program's database"):
        QueryStore.open(path)
    assert path.read_bytes() == before


def test_a_newer_version_is_refused(store: QueryStore, path: Path) -> None:
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(UnsupportedVersionError, match=r"version 7.*upgrade"):
        QueryStore.open(path)


def test_an_empty_file_is_an_empty_store(path: Path) -> None:
    path.touch()
    with QueryStore.open(path) as store:
        assert not store.consent


def use(path: Path) -> None:
    """Everything that reads or writes."""
    with QueryStore.open(path, clock=lambda: NOW) as store:
        store.examples()
        store.export()
        store.add("purl", ["a"], "a")
        store.record_opened("purl", "a")
        store.withdraw_consent()


def test_a_truncated_store_gets_a_clear_error(store: QueryStore, path: Path) -> None:
    for number in range(50):
        store.add(f"knit {number} " + "x" * 300)
    store.close()
    whole = path.read_bytes()
    for length in range(1999, len(whole), 1999):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptArtifactError, match=r"queries\.db is.*QueryStore\.destroy"):
            use(path)
    QueryStore.destroy(path)
    use(path)


def test_a_damaged_store_fails_with_our_errors(store: QueryStore, path: Path) -> None:
    for number in range(20):
        store.add(f"knit {number} é", ["a", "b"], "b")
    store.close()
    whole = path.read_bytes()
    rng = random.Random(0)
    damaged = 0
    for _ in range(80):
        changed = bytearray(whole)
        place = rng.randrange(len(whole)) if rng.random() < 0.5 else rng.randrange(120)
        changed[place : place + 4] = rng.randbytes(4)
        path.write_bytes(changed)
        try:
            use(path)
        except PocketQueryError:
            damaged += 1
        QueryStore.destroy(path)
    assert damaged > 10


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks Linux what is open")
def test_a_store_that_is_refused_is_not_left_open(store: QueryStore, path: Path) -> None:
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM state")
    gc.disable()
    try:
        with pytest.raises(CorruptArtifactError) as refused:
            QueryStore.open(path)
        held = [one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        assert not [one for one in held if one.name.startswith(path.name)], refused
    finally:
        gc.enable()


def test_a_row_that_is_no_list_of_ids_is_damage(store: QueryStore, path: Path) -> None:
    store.add("knit")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE queries SET shown = '{'")
    connection.close()
    with pytest.raises(CorruptArtifactError, match=r"'\{'.*list of ids.*destroy"):
        store.examples()
    store.withdraw_consent()  # which reads nothing
    assert store.examples() == []


def _limit_files(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write fails, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _add_for_ever(store: QueryStore) -> None:
    while store.add("x" * 3000):
        pass


def _on_a_full_disk(path: Path) -> None:
    _limit_files(path.stat().st_size)
    with QueryStore.open(path, clock=lambda: NOW) as store:
        assert store.consent
        assert len(store) == 100
        with pytest.raises(ArtifactError, match="nothing was changed"):
            _add_for_ever(store)
        before = [example.query for example in store.examples()]
        assert before[0].startswith("knit 0 ")
        store.withdraw_consent()
        assert not store.consent
        assert len(store) == 0
    os._exit(17)


def test_a_full_disk_keeps_what_was_and_still_purges(store: QueryStore, path: Path) -> None:
    for number in range(100):
        store.add(f"knit {number} " + "x" * 300)
    store.close()
    child = multiprocessing.get_context("spawn").Process(target=_on_a_full_disk, args=(path,))
    child.start()
    child.join()
    assert child.exitcode == 17
    assert b"knit" not in everything(path.parent)
    use(path)


# Killed


@pytest.mark.parametrize("operation", ["add", "withdraw", "expire"])
def test_a_kill_leaves_before_or_after(operation: str, tmp_path: Path) -> None:
    run_killed(operation, tmp_path, 24)


@pytest.mark.very_slow
@pytest.mark.parametrize(
    "operation", ["make", "add", "cap", "expire", "withdraw", "erase", "forget"]
)
def test_a_kill_at_any_moment_leaves_before_or_after(operation: str, tmp_path: Path) -> None:
    run_killed(operation, tmp_path, 60 if operation == "make" else 100)


def run_killed(operation: str, folder: Path, points: int) -> None:
    said = printed("tests.client.store_kill_points", operation, folder, points, timeout=1800)[-1]
    if operation != "make":
        assert "before" in said, said
        assert "after" in said, said
    shutil.rmtree(folder, ignore_errors=True)
