"""What a gateway tells devices, and what it takes from them."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import resource
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_gateway import (
    HOST,
    ROUND,
    SmallDevice,
    SmallGateway,
    asked_for,
    code_of,
    devices,
    opened,
    small_release,
    state_of,
    update_for,
)

from pocketquery.client.gateway.messages import read_offer_message
from pocketquery.sdk.bundle.lineage import pack_lineage
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.bundle.statement import RollOut, Statement, StatementKey, Target
from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.round import apply, close_round
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_sum import CohortSum
from pocketquery_gateway.cohorts.merging import add_cohort
from pocketquery_gateway.logs import log_to

RELEASE = small_release()
STATE = state_of(RELEASE)


# A round


def test_a_round_gives_the_server_the_bits_that_devices_would_have(small: SmallGateway) -> None:
    asked = asked_for(RELEASE, wanted=8)
    assert small.begin(asked).status_code == 201
    assert small.begin(asked).status_code == 200
    assert small.answer(asked).status_code == 202
    updates = [update_for(STATE, number) for number in range(8)]
    for device, update in zip(devices(small, 8), updates, strict=True):
        offered, wait = read_offer_message(json.dumps(device.offer()).encode())
        assert offered is not None
        assert wait == 0
        release = small.client.get(f"/v1/releases/{offered.release_sha256}").content
        assert offered.with_release(release) == asked.offer
        assert device.send(update, figures='{"loss": 0.5}').json() == {"verdict": "accepted"}
        assert device.offer() == {"offer": None, "retry_after": 60}
    found = small.answer(asked)
    assert found.status_code == 200
    assert small.answer(asked).content == found.content
    server, receipt, cohort = add_cohort(open_round(STATE, ROUND), found.content, 0.0)
    assert receipt.accepted, receipt
    assert cohort is not None
    assert cohort.figures == {"loss": 0.5}
    wanted, report = apply(STATE, updates, ROUND)
    state, told = close_round(server)
    assert told == report
    assert replace(state, seen={}).to_bytes() == replace(wanted, seen={}).to_bytes()


def test_a_server_that_asks_for_another_share_of_the_round_gets_the_same_sum(
    small: SmallGateway,
) -> None:
    """It was killed with this sum in its journal, and other gateways are connected since."""
    asked = asked_for(RELEASE, wanted=2)
    small.begin(asked)
    for device, number in zip(devices(small, 2), (1, 2), strict=True):
        device.send(update_for(STATE, number))
    again = asked_for(RELEASE, wanted=5)
    assert small.begin(again).status_code == 200
    assert small.answer(again).content == small.answer(asked).content


def test_an_update_counts_once_however_often_it_comes(small: SmallGateway) -> None:
    asked = asked_for(RELEASE, wanted=8)
    small.begin(asked)
    first, second = devices(small, 2)
    update = update_for(STATE, 1)
    for _ in range(3):
        assert first.send(update).status_code == 200
    assert first.send(update_for(STATE, 2)).status_code == 200  # it is told of the first
    stolen = second.send(update)
    assert (stolen.status_code, code_of(stolen)) == (422, "duplicate")
    assert code_of(second.send(update_for(STATE, 3))) == "duplicate"  # one reply a round
    small.clock.now += 101
    cohort = CohortSum.from_bytes(small.answer(asked).content)
    assert (cohort.count, cohort.quarantined) == (1, {"duplicate": 1})


def test_what_is_no_update_is_left_out_with_a_reason(small: SmallGateway) -> None:
    asked = asked_for(RELEASE, wanted=8)
    small.begin(asked)
    noise, stale, honest = devices(small, 3)
    assert code_of(noise.send(b"noise")) == "malformed"
    assert code_of(stale.send(update_for(STATE, 1, round=7))) == "future_round"
    assert honest.send(update_for(STATE, 2)).status_code == 200
    small.clock.now += 101
    cohort = CohortSum.from_bytes(small.answer(asked).content)
    assert (cohort.count, cohort.quarantined) == (1, {"future_round": 1, "malformed": 1})


def test_a_nonce_of_an_earlier_round_is_a_replay(small: SmallGateway) -> None:
    (device,) = devices(small, 1)
    small.begin(asked_for(RELEASE, wanted=1))
    assert device.send(update_for(STATE, 1)).status_code == 200
    later = small_release("2")
    small.begin(asked_for(later, wanted=1, number=1))
    again = update_for(state_of(later, 1), 1)
    assert code_of(device.send(again, 1)) == "replay"


def test_a_round_ends_when_enough_came_or_the_time_is_up(small: SmallGateway) -> None:
    asked = asked_for(RELEASE, wanted=2)
    small.begin(asked)
    early, other, late = devices(small, 3)
    assert early.send(update_for(STATE, 1)).status_code == 200
    assert other.send(update_for(STATE, 2)).status_code == 200
    assert code_of(late.send(update_for(STATE, 3))) == "round_over"
    assert early.send(update_for(STATE, 1)).status_code == 200  # what was told is told again
    assert CohortSum.from_bytes(small.answer(asked).content).count == 2
    following = asked_for(small_release("2"), wanted=2, number=1)
    small.begin(following)
    small.clock.now += 101
    assert late.offer()["offer"] is None
    state = state_of(small_release("2"), 1)
    assert code_of(late.send(update_for(state, 3), 1)) == "round_over"
    assert CohortSum.from_bytes(small.answer(following).content).count == 0
    assert small.answer(asked).status_code == 409


def test_no_more_devices_train_than_can_be_taken(small: SmallGateway) -> None:
    small.begin(asked_for(RELEASE, wanted=2))
    one, two, three = devices(small, 3)
    assert one.offer()["offer"] is not None
    assert two.offer()["offer"] is not None
    assert one.offer()["offer"] is not None  # it may have lost the first
    assert three.offer()["offer"] is None
    assert two.ask("PUT", "/v1/rounds/0/declined").status_code == 204
    assert three.offer()["offer"] is not None
    assert two.offer()["offer"] is None


def test_who_took_an_offer_and_went_is_not_waited_for(tmp_path: Path) -> None:
    with opened(tmp_path, lease_seconds=30) as small:
        small.begin(asked_for(RELEASE, wanted=1))
        one, two = devices(small, 2)
        assert one.offer()["offer"] is not None
        assert two.offer()["offer"] is None
        small.clock.now += 31
        assert two.offer()["offer"] is not None


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("PUT", "/v1/rounds/9/declined", b"", "round_over"),
        ("PUT", "/v1/rounds/0/secure/1", b"", "round_over"),
        ("GET", "/v1/offer", b"", ""),
        ("PUT", "/v1/device", b"{}", ""),
    ],
)
def test_a_place_is_held_by_no_trick(
    tmp_path: Path, method: str, path: str, body: bytes, code: str
) -> None:
    """Another that waits gets it after ``lease-seconds``, whatever its holder sends but updates."""
    with opened(tmp_path, lease_seconds=30) as small:
        small.begin(asked_for(RELEASE, wanted=1))
        holder, waits = devices(small, 2)
        assert holder.offer()["offer"] is not None
        assert waits.offer()["offer"] is None
        small.clock.now += 20
        answer = holder.ask(method, path, body)
        assert (code_of(answer) if answer.status_code >= 400 else "") == code
        holder.offer()
        waits.offer()
        small.clock.now += 11
        assert holder.offer()["offer"] is None
        assert waits.offer()["offer"] is not None


def test_a_server_that_begins_anew_is_followed_and_an_overtaken_offer_is_not(
    small: SmallGateway,
) -> None:
    (device,) = devices(small, 1)
    third = asked_for(RELEASE, wanted=1, number=3)
    small.begin(third)
    refused = small.begin(asked_for(RELEASE, wanted=1, number=2))
    assert refused.status_code == 400
    assert "overtaken" in refused.json()["detail"]
    assert device.send(update_for(state_of(RELEASE, 3), 1), 3).status_code == 200
    anew = asked_for(RELEASE, wanted=1)
    assert small.begin(anew).status_code == 201
    assert device.send(update_for(STATE, 1)).status_code == 200
    assert small.answer(anew).status_code == 200


# Who asks


def test_registering_again_changes_nothing_and_leaving_forgets(small: SmallGateway) -> None:
    device = SmallDevice(small)
    assert code_of(device.ask("GET", "/v1/offer")) == "unknown_device"
    assert device.register().status_code == 201
    assert device.register().status_code == 200
    assert device.ask("DELETE", "/v1/device").status_code == 204
    assert code_of(device.ask("DELETE", "/v1/device")) == "unknown_device"


def test_a_request_is_taken_once(small: SmallGateway) -> None:
    (device,) = devices(small, 1)
    headers = device.signed("GET", "/v1/offer")
    assert small.client.get("/v1/offer", headers=headers).status_code == 200
    again = small.client.get("/v1/offer", headers=headers)
    assert (again.status_code, code_of(again)) == (401, "replayed")


def test_a_request_of_another_time_is_refused_and_says_what_time_it_is(
    small: SmallGateway,
) -> None:
    (device,) = devices(small, 1)
    for created in (small.clock() - 61, small.clock() + 62):
        assert code_of(device.ask("GET", "/v1/offer", created=created)) == "not_in_time"
    assert device.ask("GET", "/v1/offer", created=small.clock() + 59).status_code == 200


def test_a_request_from_before_the_start_is_refused(small: SmallGateway) -> None:
    """Its nonce may have been taken, by the process before."""
    (device,) = devices(small, 1)
    assert code_of(device.ask("GET", "/v1/offer", created=small.clock() - 3)) == "not_in_time"


def test_a_nonce_is_remembered_as_long_as_its_request_holds(small: SmallGateway) -> None:
    (device,) = devices(small, 1)
    small.clock.now += 10_000
    headers = device.signed("GET", "/v1/offer", created=small.clock() + 60)
    assert small.client.get("/v1/offer", headers=headers).status_code == 200
    for _ in range(119):
        small.clock.now += 1
        device.offer()
    assert code_of(small.client.get("/v1/offer", headers=headers)) == "replayed"
    small.clock.now += 500
    device.offer()
    small.clock.now += 500
    device.offer()
    assert len(small.gateway.authentication._nonces) < 5


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"signature": "sig1=:" + "A" * 86 + "==:"}, "signature"),
        ({"signature": "nothing"}, "unsigned"),
        ({"content-digest": "sha-256=:" + "A" * 43 + "=:"}, "signature"),
        ({"pocketquery-figures": '{"loss": 0}'}, "unsigned"),
    ],
)
def test_a_changed_request_is_refused(
    small: SmallGateway, change: dict[str, str], code: str
) -> None:
    (device,) = devices(small, 1)
    small.begin(asked_for(RELEASE, wanted=8))
    update = update_for(STATE, 1)
    path = "/v1/rounds/0/update"
    headers = device.signed("PUT", path, update) | change
    assert code_of(small.client.put(path, content=update, headers=headers)) == code
    assert device.send(update).status_code == 200


def test_a_signature_holds_for_its_path_method_host_and_body(small: SmallGateway) -> None:
    (device,) = devices(small, 1)
    small.begin(asked_for(RELEASE, wanted=8))
    update, path = update_for(STATE, 1), "/v1/rounds/0/update"

    def sent(headers: dict[str, str], to: str = path, body: bytes = update) -> str:
        return code_of(small.client.put(to, content=body, headers=headers))

    assert sent(device.signed("PUT", "/v1/rounds/1/update", update)) == "signature"
    assert sent(device.signed("POST", path, update)) == "signature"
    assert sent(device.signed("PUT", path, update, host="elsewhere.test")) == "signature"
    assert sent(device.signed("PUT", path, update), body=update + b" ") == "digest"
    assert sent(device.signed("PUT", path, update), to=path + "?x=1") == "query"
    other = small.client.get("/v1/health", headers={"host": "elsewhere.test"})
    assert (other.status_code, code_of(other)) == (421, "wrong_authority")


def test_a_host_is_known_whatever_the_case_of_its_letters(tmp_path: Path) -> None:
    with opened(tmp_path, authorities=(HOST.upper(),)) as small:
        for host in (HOST, HOST.upper()):
            assert small.client.get("/v1/health", headers={"host": host}).status_code == 200


def test_bodies_are_limited_before_they_are_read(small: SmallGateway) -> None:
    (device,) = devices(small, 1)
    small.begin(asked_for(RELEASE, wanted=8))
    largest = small.gateway.body_limits.update
    assert largest < 10_000  # of these small tensors
    big = b"x" * (largest + 1)
    assert code_of(device.send(big)) == "too_large"

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    path = "/v1/rounds/0/update"
    headers = device.signed("PUT", path, big)
    assert code_of(small.client.put(path, content=endless(), headers=headers)) == "too_large"
    assert code_of(device.register(b"[" * 100_000)) == "too_large"
    assert code_of(device.register(b"[" * 50_000)) == "json"
    assert device.send(update_for(STATE, 1)).status_code == 200


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, "unknown_device"),
        ({"signature": "sig1=:" + "A" * 86 + "==:"}, "signature"),
        ({"signature": ""}, "unsigned"),
        ({"created": 1.0}, "not_in_time"),
        ({"again": True}, "replayed"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/rounds/0/update", "/v1/rounds/0/secure/1", "/v1/device"])
def test_no_body_is_read_before_its_headers_are_checked(
    small: SmallGateway, change: dict[str, Any], code: str, path: str
) -> None:
    """One that is read is asked for, and fails the test."""
    sender = SmallDevice(small)
    if change:
        assert sender.register().status_code == 201
    elif path == "/v1/device":
        pytest.skip("whoever registers is not known yet")
    change = dict(change)
    created, again = change.pop("created", None), change.pop("again", False)
    headers = sender.signed("PUT", path, b"x", created=created) | change
    if again:
        assert small.client.put(path, content=b"x", headers=headers).status_code != 401

    async def unread() -> AsyncIterator[bytes]:
        pytest.fail("the body is read")
        yield b""

    assert code_of(small.client.put(path, content=unread(), headers=headers)) == code


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    with opened(tmp_path, body_seconds=0.05) as small:

        async def stalls() -> AsyncIterator[bytes]:
            yield b"x" * 10
            await asyncio.Event().wait()

        (device,) = devices(small, 1)
        path = "/v1/rounds/0/update"
        headers = device.signed("PUT", path, b"x" * 10)
        slow = small.client.put(path, content=stalls(), headers=headers)
        assert (slow.status_code, code_of(slow)) == (408, "slow")
        assert slow.headers["connection"] == "close"
        assert small.client.get("/v1/health").status_code == 200


def test_a_device_and_an_address_may_ask_so_often(tmp_path: Path) -> None:
    with opened(tmp_path / "a", requests_per_minute=2.0) as small:
        busy, quiet = SmallDevice(small), SmallDevice(small)
        codes = [busy.register().status_code for _ in range(6)]
        assert codes == [201, 200, 200, 200, 429, 429]
        assert quiet.register().status_code == 201
        small.clock.now += 31
        assert busy.register().status_code == 200
    with opened(tmp_path / "b", address_requests_per_minute=3.0) as small:
        answers = [small.client.get("/v1/health") for _ in range(8)]
        assert [one.status_code for one in answers] == [200] * 6 + [429] * 2
        assert code_of(answers[-1]) == "address_rate"
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 21


def test_devices_and_uploads_are_counted(tmp_path: Path) -> None:
    with opened(tmp_path, most_devices=2, uploads_per_day=2) as small:
        first, _ = devices(small, 2)
        assert code_of(SmallDevice(small).register()) == "quota"
        for number in range(3):
            release = small_release(str(number + 1))
            small.begin(asked_for(release, wanted=1, number=number))
            small.clock.now += 1
            sent = first.send(update_for(state_of(release, number), number), number)
            assert sent.status_code == (200 if number < 2 else 429), sent.text
        small.clock.now += 86_400
        small.begin(asked_for(small_release("4"), wanted=1, number=3))
        sent = first.send(update_for(state_of(small_release("4"), 3), 3), 3)
        assert sent.status_code == 200


def begin_and_send(small: SmallGateway, device: SmallDevice, number: int) -> int:
    """A round that one update completes; the status that a device's gets."""
    release = small_release(str(number + 1))
    small.begin(asked_for(release, wanted=1, number=number))
    small.clock.now += 1
    return device.send(update_for(state_of(release, number), number), number).status_code


def files(folder: Path) -> bytes:
    """All that a journal has on disk."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("gateway.sqlite*")))


def test_leaving_and_registering_again_begins_no_new_day(tmp_path: Path) -> None:
    with opened(tmp_path, uploads_per_day=3) as small:
        (device,) = devices(small, 1)
        for number in range(3):
            assert begin_and_send(small, device, number) == 200
            assert device.ask("DELETE", "/v1/device").status_code == 204
            assert device.register().status_code == 201
        assert begin_and_send(small, device, 3) == 429
        small.clock.now += 86_400
        assert begin_and_send(small, device, 4) == 200


def test_of_a_device_that_left_nothing_is_kept_beyond_the_day(tmp_path: Path) -> None:
    with opened(tmp_path) as small:
        stays, leaves = devices(small, 2)
        key = public_key_of(leaves.key)
        digest = bytes.fromhex(sha256_bytes(key))
        assert begin_and_send(small, leaves, 0) == 200
        assert leaves.ask("DELETE", "/v1/device").status_code == 204
        assert begin_and_send(small, stays, 1) == 200  # the verdicts of the round before are erased
        small.control.get("/health")
        assert digest in files(tmp_path)
        small.clock.now += 86_400
        small.control.get("/health")
        assert digest not in files(tmp_path)
        assert key not in files(tmp_path)
        assert public_key_of(stays.key) in files(tmp_path)


def test_who_left_after_an_upload_has_its_place_until_the_day_is_over(tmp_path: Path) -> None:
    """Else keys could come and go, and what is kept of them grow without an end."""
    with opened(tmp_path, most_devices=1) as small:
        (device,) = devices(small, 1)
        assert device.ask("DELETE", "/v1/device").status_code == 204
        other = SmallDevice(small)
        assert other.register().status_code == 201  # the first had sent nothing
        assert begin_and_send(small, other, 0) == 200
        assert other.ask("DELETE", "/v1/device").status_code == 204
        assert code_of(device.register()) == "quota"
        assert other.register().status_code == 201
        assert other.ask("DELETE", "/v1/device").status_code == 204
        small.clock.now += 86_400
        small.control.get("/health")
        assert device.register().status_code == 201


# Releases


def test_releases_come_with_etag_and_in_parts(small: SmallGateway) -> None:
    assert code_of(small.client.get("/v1/releases/current")) == "no_release"
    small.begin(asked_for(RELEASE))
    current = small.client.get("/v1/releases/current")
    said = current.json()
    assert (said["version"], said["bytes"]) == ("1", len(RELEASE))
    known = {"if-none-match": current.headers["etag"]}
    assert small.client.get("/v1/releases/current", headers=known).status_code == 304
    whole = small.client.get(said["path"])
    assert sha256_bytes(whole.content) == said["sha256"]
    assert whole.headers["etag"] == f'"{said["sha256"]}"'
    assert "immutable" in whole.headers["cache-control"]
    known = {"if-none-match": whole.headers["etag"]}
    assert small.client.get(said["path"], headers=known).status_code == 304
    parts = [
        small.client.get(said["path"], headers={"range": span, "if-range": whole.headers["etag"]})
        for span in ("bytes=0-99", "bytes=100-")
    ]
    assert [one.status_code for one in parts] == [206, 206]
    assert b"".join(one.content for one in parts) == RELEASE
    beyond = {"range": f"bytes={len(RELEASE)}-"}
    assert small.client.get(said["path"], headers=beyond).status_code == 416
    for name in ("0" * 64, "..%2fgateway.sqlite", "../gateway.sqlite"):
        assert small.client.get(f"/v1/releases/{name}").status_code == 404


def test_what_is_announced_is_served(small: SmallGateway) -> None:
    newer = small_release("2")
    body = AnnouncedRelease(newer, b"abc").to_bytes()
    assert small.control.put("/release", content=body).status_code == 204
    said = small.client.get("/v1/releases/current").json()
    assert (said["version"], said["lineage"]) == ("2", "YWJj")
    assert small.client.get(said["path"]).content == newer
    for bad in (AnnouncedRelease(b"no release").to_bytes(), b"", newer):
        assert small.control.put("/release", content=bad).status_code == 400


def test_a_release_is_removed_a_week_after_it_was_replaced(small: SmallGateway) -> None:
    day = 86_400

    def served(release: bytes) -> bool:
        small.control.get("/health")
        return small.client.get(f"/v1/releases/{sha256_bytes(release)}").status_code == 200

    second, third = small_release("2"), small_release("3")
    small.begin(asked_for(second))
    small.clock.now += 8 * day
    assert served(second)
    small.begin(asked_for(third, number=1))
    assert served(second)
    small.clock.now += 7 * day - 1
    assert served(second)
    small.clock.now += 2
    assert not served(second)
    assert served(third)


def test_a_release_that_a_roll_out_leaves_to_other_devices_is_kept(small: SmallGateway) -> None:
    week, releases = 7 * 86_400, [small_release(str(number)) for number in range(1, 4)]
    first, second, third = releases
    targets = [Target(str(n), sha256_bytes(one)) for n, one in enumerate(releases, 1)]

    def announce(release: bytes, statement: Statement) -> None:
        lineage = pack_lineage([statement.signed(bytes(32))])
        body = AnnouncedRelease(release, lineage).to_bytes()
        assert small.control.put("/release", content=body).status_code == 204

    def served() -> list[bool]:
        small.control.get("/health")
        paths = [f"/v1/releases/{one.sha256}" for one in targets]
        return [small.client.get(path).status_code == 200 for path in paths]

    keys = (StatementKey(public_key_of(bytes(32))),)
    said = Statement(STATE.space_id, STATE.encoder_sha256, 1, keys, targets[0])
    announce(first, said)
    begun = RollOut(100_000, bytes(32), targets[0])
    announce(second, replace(said, sequence=2, release=targets[1], roll_out=begun))
    announce(third, replace(said, sequence=3, release=targets[2], roll_out=begun))
    small.clock.now += week + 1
    assert served() == [True, False, True]
    announce(third, replace(said, sequence=4, release=targets[2]))  # for every device
    small.clock.now += week - 1
    assert served() == [True, False, True]
    small.clock.now += 2
    assert served() == [False, False, True]


@pytest.mark.parametrize("told", ["with a round", "between rounds"])
def test_a_gateway_that_is_new_serves_what_a_roll_out_leaves_to_other_devices(
    small: SmallGateway, told: str
) -> None:
    other, newer = small_release("1"), small_release("2")
    targets = [Target(str(n), sha256_bytes(one)) for n, one in enumerate((other, newer), 1)]
    keys = (StatementKey(public_key_of(bytes(32))),)
    begun = RollOut(100_000, bytes(32), targets[0])
    statement = Statement(STATE.space_id, STATE.encoder_sha256, 1, keys, targets[1], roll_out=begun)
    lineage = pack_lineage([statement.signed(bytes(32))])
    if told == "with a round":
        asked = asked_for(newer)
        asked = replace(asked, offer=replace(asked.offer, lineage=lineage), left_release=other)
        assert small.begin(asked).status_code == 201
        assert small.begin(replace(asked, left_release=b"")).status_code == 200  # the same round
    else:
        body = AnnouncedRelease(newer, lineage, other).to_bytes()
        assert small.control.put("/release", content=body).status_code == 204
    small.clock.now += 8 * 86_400
    small.control.get("/health")
    assert small.client.get("/v1/releases/current").json()["version"] == "2"
    for release, target in zip((other, newer), targets, strict=True):
        assert small.client.get(f"/v1/releases/{target.sha256}").content == release


# Whoever watches it


@contextlib.contextmanager
def nothing_can_be_written() -> Iterator[None]:
    """No file of this process takes another byte, as on a disk that is full or failed."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_it_is_healthy_as_long_as_an_upload_could_be_kept(small: SmallGateway) -> None:
    def health() -> list[int]:
        found = []
        for at, path in ((small.client, "/v1/health"), (small.control, "/health")):
            small.clock.now += 1
            found.append(at.get(path).status_code)
        return found

    assert health() == [200, 200]
    with nothing_can_be_written():
        assert health() == [503, 503]
        assert code_of(small.client.get("/v1/health")) == "journal"
    assert health() == [200, 200]


def test_health_fails_at_once_where_a_write_fails_after_a_good_answer(small: SmallGateway) -> None:
    assert small.client.get("/v1/health").status_code == 200
    with nothing_can_be_written():
        assert small.client.get("/v1/health").status_code == 200  # one write a second
        assert code_of(SmallDevice(small).register()) == "journal"
        assert small.client.get("/v1/health").status_code == 503


def test_a_disk_that_is_nearly_full_is_not_healthy(tmp_path: Path) -> None:
    stream = io.StringIO()
    log_to(stream)
    with opened(tmp_path, free_megabytes=10**9) as small:
        full = small.client.get("/v1/health")
        assert (full.status_code, code_of(full)) == (503, "journal")
        assert "MB free" in full.json()["detail"]
    assert '"event": "disk_full", "free_megabytes": ' in stream.getvalue()


def test_logs_and_metrics_name_no_device(tmp_path: Path) -> None:
    stream = io.StringIO()
    log_to(stream)
    with opened(tmp_path) as small:
        small.begin(asked_for(RELEASE, wanted=2))
        device, other = devices(small, 2)
        update = update_for(STATE, 1)
        device.offer()
        device.send(update)
        device.send(b"\xff" + os.urandom(20))
        other.send(b"noise")
        other.ask("GET", "/v1/offer", created=1)
        small.client.get("/v1/releases/../../etc/passwd-of-somebody")
        metrics = small.gateway.metrics.text().decode()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {line["event"] for line in lines} >= {"request", "round_begun"}
    assert {line["route"] for line in lines if line["event"] == "request"} >= {
        "/v1/device",
        "/v1/offer",
        "/v1/rounds/{round}/update",
    }
    assert 'gateway_updates_total{verdict="accepted"} 2.0' in metrics
    assert 'gateway_updates_total{verdict="malformed"} 1.0' in metrics
    from pocketquery.client.update import decode_update

    nonce = decode_update(update).header.nonce
    for text in (stream.getvalue(), metrics):
        for secret in (public_key_of(device.key).hex(), nonce, HOST, "127.0.0.1", "somebody"):
            assert secret not in text
            assert secret[:12] not in text


def test_the_journal_keeps_no_update_and_no_verdict_of_an_earlier_round(tmp_path: Path) -> None:
    with opened(tmp_path) as small:
        small.begin(asked_for(RELEASE, wanted=1))
        (device,) = devices(small, 1)
        update = update_for(STATE, 1)
        device.send(update)
        small.begin(asked_for(small_release("2"), wanted=1, number=1))
    with opened(tmp_path):  # its opening copies the log into the file and cuts it
        pass
    from pocketquery.client.update import decode_update

    kept = (tmp_path / "gateway.sqlite").read_bytes()
    tensors = decode_update(update).change
    assert all(value.tobytes() not in kept for value in tensors.values())
    assert bytes.fromhex(sha256_bytes(update)) not in kept
    assert (tmp_path / "gateway.sqlite").stat().st_mode & 0o077 == 0
