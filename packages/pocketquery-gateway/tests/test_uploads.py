"""Uploads that come together: what is told and kept is what would be, had they come one by one."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
from hypothesis import example, given
from hypothesis import strategies as st
from small_gateway import (
    HOST,
    asked_for,
    devices,
    opened,
    small_release,
    state_of,
    update_for,
)

from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.federation.rounds.round import prepare
from pocketquery_gateway.app import device_app
from pocketquery_gateway.cohorts.cohort_sum import CohortSum
from pocketquery_gateway.journal import GatewayJournal
from pocketquery_gateway.rounds.tables import DeviceRow
from pocketquery_gateway.rounds.upload import Upload
from pocketquery_gateway.worker import Worker

RELEASE = small_release()
STATE = state_of(RELEASE)
KEYS = [bytes([number]) * 32 for number in range(6)]
TODAY = 20_000
UPDATES = [
    update_for(STATE, 1),
    update_for(STATE, 2),
    update_for(STATE, 3),
    update_for(STATE, 4, weight=9.0),
    update_for(STATE, 2, weight=1e9),
    update_for(STATE, 5, round=4),
    b"noise",
]
# Who sends what, to which round, on which day, how it was read before.
sent = st.tuples(
    st.integers(0, len(KEYS) - 1),
    st.integers(0, len(UPDATES) - 1),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([TODAY, TODAY, TODAY + 1]),
    st.booleans(),
)


@contextlib.contextmanager
def small_journal() -> Iterator[GatewayJournal]:
    """With a round that takes three updates, and all devices but the last registered."""
    with (
        tempfile.TemporaryDirectory() as folder,
        GatewayJournal.open(Path(folder) / "journal.sqlite", clock=lambda: 0.0) as journal,
    ):
        with journal.batch():
            for key in KEYS[:-1]:
                journal.register(key, TODAY - 5, 100)
            journal.begin(asked_for(RELEASE, wanted=3))
        journal._connection.execute(
            "UPDATE devices SET day = ?, used = 2 WHERE key = ?", (TODAY, KEYS[1])
        )
        yield journal


def given_to(
    journal: GatewayJournal, items: Sequence[tuple[int, int, int, int, bool]]
) -> list[str]:
    """What is told of each, in one batch."""
    current = journal.cohort_round
    assert current.opened is not None
    uploads = []
    for device, update, number, day, is_read in items:
        data = UPDATES[update]
        read = prepare(data, current.opened.expected, current.opened.settings)
        digest = bytes.fromhex(sha256_bytes(data))
        figures = {"loss": float(device)}
        uploads.append(
            Upload(KEYS[device], number, data, digest, day, figures, read if is_read else None)
        )
    with journal.batch():
        told = journal.updates.receive_all(uploads, most_uploads=2)
    return [type(one).__name__ if isinstance(one, Exception) else repr(one) for one in told]


def kept(journal: GatewayJournal) -> tuple[object, ...]:
    """What is known after it, and what of each device is once the next round has begun."""
    current = journal.cohort_round
    opened, cohort = current.opened, current.cohort
    assert opened is not None
    assert cohort is not None
    answer = current.answer(cohort.asked.digest)
    found = (
        None
        if answer is None
        else replace(CohortSum.from_bytes(answer), nonce="0" * 32).to_bytes(),
        [(one.totals.tobytes(), one.weight, one.count, one.reach) for one in opened.shards],
        opened.nonces,
        opened.quarantined,
        (opened.norms, opened.clipped),
        cohort.figures,
        [current.verdict(key) for key in KEYS],
    )
    with journal.batch():
        journal.begin(asked_for(small_release("2"), wanted=3, number=1))
    return found, [journal.device(key) for key in KEYS]


def good(device: int, update: int) -> tuple[int, int, int, int, bool]:
    return device, update, 0, TODAY, True


@example([good(0, 0), good(2, 1), good(3, 2), good(4, 3)], [])  # one more than completes it
@example([good(0, 0), good(0, 1), good(2, 0)], [])  # a device twice, a nonce twice
@given(st.lists(sent, min_size=1, max_size=10), st.lists(st.integers(1, 10), max_size=3))
def test_uploads_together_are_uploads_one_after_the_other(
    items: list[tuple[int, int, int, int, bool]], cuts: list[int]
) -> None:
    with small_journal() as single, small_journal() as together:
        told = [line for item in items for line in given_to(single, [item])]
        found, start = [], 0
        for stop in (*sorted(cuts), len(items)):
            found += given_to(together, items[start:stop])
            start = max(start, stop)
        assert found == told
        # What is on disk is what is in memory.
        before = together.cohort_round.opened
        together._load()
        after = together.cohort_round.opened
        assert before is not None
        assert after is not None
        assert (before.nonces, before.norms) == (after.nonces, after.norms)
        assert kept(together) == kept(single)


def test_uploads_are_counted_by_day_when_the_next_round_begins() -> None:
    with small_journal() as journal:
        given_to(journal, [(0, 0, 0, TODAY, True), (1, 1, 0, TODAY + 1, True)])
        held = [journal.device(key) for key in KEYS[:3]]
        assert held == [DeviceRow(TODAY - 5), DeviceRow(TODAY - 5, TODAY, 2), DeviceRow(TODAY - 5)]
        with journal.batch():
            journal.begin(asked_for(small_release("2"), wanted=3, number=1))
        held = [journal.device(key) for key in KEYS[:3]]
        assert held[0] == DeviceRow(TODAY - 5, TODAY, 1)
        assert held[1] == DeviceRow(TODAY - 5, TODAY + 1, 1)
        assert held[2] == DeviceRow(TODAY - 5)


def test_of_a_removed_device_what_it_uploaded_today_is_counted_once() -> None:
    with small_journal() as journal:
        given_to(journal, [(0, 0, 0, TODAY, True), (1, 1, 0, TODAY, True), (2, 2, 0, TODAY, True)])
        with journal.batch():
            assert journal.remove(KEYS[0], TODAY)
            assert journal.remove(KEYS[2], TODAY + 1)  # it sent nothing on that day
            assert not journal.remove(KEYS[5], TODAY)  # it never was there
            for key in (KEYS[0], KEYS[2]):
                assert journal.register(key, TODAY + 1 if key == KEYS[2] else TODAY, 100)
        assert journal.device(KEYS[0]) == DeviceRow(TODAY, TODAY, 1)
        assert journal.device(KEYS[2]) == DeviceRow(TODAY + 1)
        with journal.batch():
            journal.begin(asked_for(small_release("2"), wanted=3, number=1))
        assert journal.device(KEYS[0]) == DeviceRow(TODAY, TODAY, 1)
        with journal.batch():  # and again, in the batch that it came in
            journal.remove(KEYS[0], TODAY)
            journal.register(KEYS[0], TODAY, 100)
            journal.remove(KEYS[0], TODAY)
        assert journal.device(KEYS[0]) is None
        journal._load()
        with journal.batch():
            journal.register(KEYS[0], TODAY, 100)
        assert journal.device(KEYS[0]) == DeviceRow(TODAY, TODAY, 1)


def test_an_upload_and_its_removal_in_one_batch_are_counted() -> None:
    with small_journal() as journal:
        data = UPDATES[0]
        digest = bytes.fromhex(sha256_bytes(data))
        with journal.batch():
            journal.updates.receive_all([Upload(KEYS[0], 0, data, digest, TODAY)], most_uploads=2)
            journal.remove(KEYS[0], TODAY)
            journal.register(KEYS[0], TODAY, 100)
        assert journal.device(KEYS[0]) == DeviceRow(TODAY, TODAY, 1)
        assert journal.cohort_round.verdict(KEYS[0]) is not None
        journal._load()
        assert journal.cohort_round.verdict(KEYS[0]) is not None


def test_a_removal_that_is_undone_changes_nothing() -> None:
    with small_journal() as journal:
        before = journal.device(KEYS[1])
        with contextlib.suppress(KeyboardInterrupt), journal.batch():
            journal.remove(KEYS[1], TODAY)
            raise KeyboardInterrupt
        assert journal.device(KEYS[1]) == before
        assert journal.devices == len(KEYS) - 1
        assert len(journal._removed) == 0


def test_a_batch_writes_no_row_of_a_device() -> None:
    """What an upload writes does not grow with who is registered: its place is the next."""
    with small_journal() as journal:
        told: list[str] = []
        journal._connection.set_trace_callback(told.append)
        given_to(journal, [(device, device, 0, TODAY, True) for device in (0, 2, 3)])
        journal._connection.set_trace_callback(None)
        writes = [line for line in told if line.startswith(("INSERT", "UPDATE", "DELETE"))]
        assert writes
        assert not any(" devices" in line for line in writes)


def test_what_comes_for_one_function_is_handed_to_it_at_once_and_in_order() -> None:
    busy, free = threading.Event(), threading.Event()
    calls: list[list[int]] = []

    def wait(_: GatewayJournal) -> None:
        busy.set()
        free.wait()

    def doubled(_: GatewayJournal, items: list[int]) -> list[int | Exception]:
        calls.append(items)
        return [ValueError(one) if one == 3 else 2 * one for one in items]

    async def run(worker: Worker) -> list[int | BaseException | None]:
        first = asyncio.create_task(worker.run(wait))
        await asyncio.to_thread(busy.wait)
        one = [worker.run_together(doubled, number) for number in range(5)]
        between = worker.run(lambda journal: journal.devices)
        other = [worker.run_together(doubled, number) for number in (7, 8)]
        all_of_them = asyncio.gather(first, *one, between, *other, return_exceptions=True)
        await asyncio.sleep(0)  # they are in the queue
        free.set()
        return await all_of_them

    with small_journal() as journal:
        worker = Worker(journal)
        try:
            told = asyncio.run(run(worker))
        finally:
            free.set()
            worker.stop()
    assert calls == [[0, 1, 2, 3, 4], [7, 8]]
    assert [repr(one) for one in told] == [
        "None", "0", "2", "4", "ValueError(3)", "8", "5", "14", "16"
    ]  # fmt: skip


def test_many_at_once_over_http_are_all_in_the_sum(tmp_path: Path) -> None:
    """Twenty devices, each twice at the same moment, and somebody who is not registered."""
    with opened(tmp_path) as small:
        asked = asked_for(RELEASE, wanted=20)
        small.begin(asked)
        fleet = devices(small, 20)
        stranger = replace(fleet[0], key=b"s" * 32)
        path = "/v1/rounds/0/update"
        requests = []
        for number, device in enumerate([*fleet, *fleet, stranger]):
            body = update_for(STATE, number % 20)
            requests.append((body, device.signed("PUT", path, body)))

        async def all_at_once() -> list[int]:
            transport = httpx.ASGITransport(device_app(small.gateway))
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
                answers = await asyncio.gather(
                    *(client.put(path, content=body, headers=how) for body, how in requests)
                )
            return [one.status_code for one in answers]

        assert small.client._runner.run(all_at_once()) == [200] * 40 + [403]
        assert CohortSum.from_bytes(small.answer(asked).content).count == 20
