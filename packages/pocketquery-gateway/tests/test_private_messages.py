"""What a gateway tells devices in a private round, and what it takes from them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from relay_kill_points import (
    SECURE,
    agreement_key_of,
    certificate_of,
    private_offer,
    ready_of,
)
from small_gateway import (
    SmallDevice,
    SmallGateway,
    code_of,
    devices,
    opened,
    state_of,
    update_for,
)

from pocketquery.client.gateway.messages import STAGE_HEADER, read_offer_message
from pocketquery.client.private.keys import Certificate
from pocketquery.client.private.messages import Announcement, Stage
from pocketquery.client.private.replies import Ready
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.stage_bundle import StageBundle
from pocketquery_gateway.logs import log_to


@dataclass
class Private:
    """A gateway whose private round three devices have a seat in."""

    small: SmallGateway
    asked: CohortOffer
    devices: list[SmallDevice]

    def begin(self, stage: Stage, *seats: int) -> StageBundle:
        bundle = StageBundle(0, stage, {seat: b"to %d in %d" % (seat, stage) for seat in seats}, 5)
        assert self.small.control.put("/stage", content=bundle.to_bytes()).status_code == 201
        return bundle

    def replies(self, bundle: StageBundle, *, last: bool = False) -> StageBundle | None:
        found = self.small.control.get(f"/stage/{bundle.digest}?last={int(last)}")
        assert found.status_code in (200, 202), found.text
        return StageBundle.from_bytes(found.content) if found.status_code == 200 else None


def ready(device: SmallDevice, number: int, body: bytes) -> Any:
    return device.ask("PUT", f"/v1/rounds/{number}/secure/1", body)


def announced_by(small: SmallGateway) -> bytes:
    """The key that it tells its devices."""
    return small.gateway.worker._journal.key.public


def reply(device: SmallDevice, stage: int, body: bytes, number: int = 0) -> Any:
    return device.ask("PUT", f"/v1/rounds/{number}/secure/{stage}", body)


def message(device: SmallDevice, number: int = 0) -> Any:
    return device.ask("GET", f"/v1/rounds/{number}/secure")


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Private]:
    with opened(tmp_path) as small:
        asked = private_offer(0, wanted=3)
        assert small.begin(asked).status_code == 201
        made = devices(small, 3)
        for number, device in enumerate(made):
            body = ready_of(number, announced_by(small), 0)
            assert ready(device, 0, body).json() == {"verdict": "received"}
        yield Private(small, asked, made)


def test_the_offer_of_a_private_round_announces_it_and_takes_no_update(tmp_path: Path) -> None:
    with opened(tmp_path) as small:
        asked = private_offer(0)
        small.begin(asked)
        first, second = devices(small, 2)
        body = first.offer()
        said = body["offer"]["announcement"]
        announcement = Announcement.parse(base64.b64decode(said))
        assert announcement.federation == SECURE.federation_id
        offered, _ = read_offer_message(json.dumps(body).encode())
        assert offered is not None
        assert offered.announcement == base64.b64decode(said)
        update = update_for(state_of(asked.offer.release), 1)
        assert code_of(first.send(update)) == "round_over"
        one, two = (ready_of(number, announcement.key, 0) for number in (1, 2))
        assert code_of(ready(first, 0, b"x" * 116)) == "bad_certificate"
        assert code_of(ready(first, 0, b"x" * 117)) == "too_large"
        assert code_of(ready(first, 1, one)) == "round_over"
        assert code_of(message(first)) == "round_over"
        for _ in range(2):
            assert ready(first, 0, one).status_code == 200
        assert code_of(ready(first, 0, two)) == "duplicate"
        assert code_of(ready(second, 0, one)) == "duplicate"  # another's
        waiting = message(first)
        assert (waiting.status_code, waiting.headers["retry-after"]) == (204, "6")
        assert first.offer()["offer"] is None
        assert second.ask("PUT", "/v1/rounds/0/declined").status_code == 204
        assert small.answer(asked).status_code == 202
        small.clock.now += 101
        found = StageBundle.from_bytes(small.answer(asked).content)
        assert (found.bodies, found.declined) == ({0: certificate_of(1)}, 1)


def test_anothers_certificate_takes_no_seat_and_the_device_itself_still_does(
    tmp_path: Path,
) -> None:
    """As a neighbour of an earlier round can send it: the certificate, with any key but the one."""
    certificate = Certificate.parse(certificate_of(1))
    with opened(tmp_path, uploads_per_day=1) as small:
        asked = private_offer(0, wanted=2)
        small.begin(asked)
        neighbour, device = devices(small, 2)
        key, federation = announced_by(small), SECURE.federation_id
        stolen = Ready.prove(agreement_key_of(2), certificate, key, federation, 0).to_bytes()
        alone, later = certificate.to_bytes(), ready_of(1, key, 1)
        for body in (b"", alone, alone + bytes(16), stolen, later):
            assert code_of(ready(neighbour, 0, body)) == "bad_proof"
        assert ready(device, 0, ready_of(1, key, 0)).status_code == 200
        assert ready(neighbour, 0, ready_of(2, key, 0)).status_code == 200  # its one upload
        found = StageBundle.from_bytes(small.answer(asked).content)
        assert found.bodies == {0: certificate_of(1), 1: certificate_of(2)}


def test_a_gateway_announces_one_key_for_ever_and_takes_no_proof_of_another_round(
    tmp_path: Path,
) -> None:
    announced, bodies = set(), []
    for number in range(2):
        with opened(tmp_path) as small:
            (device,) = devices(small, 1)
            small.begin(private_offer(number, wanted=2))
            said = device.offer()["offer"]["announcement"]
            announced.add(Announcement.parse(base64.b64decode(said)).key)
            bodies.append(ready_of(1, announced_by(small), number))
            assert number == 0 or code_of(ready(device, 1, bodies[0])) == "bad_proof"
            assert ready(device, number, bodies[number]).status_code == 200
    assert len(announced) == 1
    with opened(tmp_path / "another") as small:
        assert announced_by(small) not in announced


def test_a_private_round_counts_as_one_upload_and_a_plain_one_has_no_stages(
    tmp_path: Path,
) -> None:
    from small_gateway import asked_for, small_release

    with opened(tmp_path, uploads_per_day=1) as small:
        (device,) = devices(small, 1)
        small.begin(asked_for(small_release(), wanted=1))
        bodies = [ready_of(1, announced_by(small), number) for number in range(3)]
        assert code_of(ready(device, 0, bodies[0])) == "round_over"
        assert code_of(message(device)) == "round_over"
        small.begin(private_offer(1, wanted=1))
        assert ready(device, 1, bodies[1]).status_code == 200
        small.begin(private_offer(2, wanted=1))
        assert code_of(ready(device, 2, bodies[2])) == "quota"


def test_a_stage_is_relayed_to_those_who_are_in_it(private: Private) -> None:
    first, second, third = private.devices
    bundle = private.begin(Stage.INVITE, 0, 1)
    again = private.small.control.put("/stage", content=bundle.to_bytes())
    assert again.status_code == 200
    for _ in range(2):
        found = message(first)
        assert (found.content, found.headers[STAGE_HEADER]) == (b"to 0 in 2", "2")
    assert code_of(message(third)) == "round_over"
    assert private.replies(bundle) is None
    for _ in range(2):
        assert reply(first, 2, b"boxes").json() == {"verdict": "received"}
    assert code_of(reply(first, 2, b"other boxes")) == "duplicate"
    assert code_of(reply(first, 3, b"too early")) == "round_over"
    assert code_of(reply(third, 2, b"not asked")) == "round_over"
    assert message(first).status_code == 204
    late = private.replies(bundle, last=True)
    assert late is not None
    assert (late.bodies, late.gone) == ({0: b"boxes"}, ())
    assert second.ask("PUT", "/v1/rounds/0/declined").status_code == 204
    found = private.replies(bundle)
    assert found is not None
    assert (found.stage, found.bodies, found.gone) == (Stage.INVITE, {0: b"boxes"}, (1,))
    assert code_of(message(second)) == "round_over"


def test_a_stage_that_is_over_is_not_begun_again_nor_answered(private: Private) -> None:
    first = private.devices[0]
    earlier = private.begin(Stage.INVITE, 0, 1, 2)
    private.begin(Stage.COLLECT, 0, 1)
    control = private.small.control
    assert control.put("/stage", content=earlier.to_bytes()).status_code == 409
    assert control.get(f"/stage/{earlier.digest}").status_code == 409
    assert control.put("/stage", content=b"noise").status_code == 400
    other = StageBundle(7, Stage.CONFIRM, {0: b""})
    assert control.put("/stage", content=other.to_bytes()).status_code == 409
    nobody = StageBundle(0, Stage.CONFIRM, {9: b""})
    assert control.put("/stage", content=nobody.to_bytes()).status_code == 409
    assert code_of(reply(first, 2, b"boxes")) == "round_over"
    assert reply(first, 3, b"masked").status_code == 200
    private.small.begin(private_offer(1))
    for device in private.devices:
        assert code_of(message(device)) == "round_over"
        assert code_of(reply(device, 3, b"masked")) == "round_over"


def test_a_private_round_is_forgotten_once_no_device_reveals_anything_any_more(
    private: Private,
) -> None:
    private.begin(Stage.INVITE, 0)
    assert message(private.devices[0]).status_code == 200
    private.small.clock.now += private.asked.lasts + 1
    private.small.control.get("/health")
    assert code_of(message(private.devices[0])) == "round_over"


def test_what_is_announced_ends_a_private_round(private: Private) -> None:
    private.begin(Stage.INVITE, 0)
    body = AnnouncedRelease(private.asked.offer.release).to_bytes()
    assert private.small.control.put("/release", content=body).status_code == 204
    assert code_of(message(private.devices[0])) == "round_over"


def test_masked_changes_are_asked_for_anew_after_a_restart_and_nothing_else(
    private: Private, tmp_path: Path
) -> None:
    first, second, third = private.devices
    private.begin(Stage.INVITE, 0, 1, 2)
    reply(first, 2, b"boxes")
    bundle = private.begin(Stage.COLLECT, 0, 1, 2)
    assert reply(first, 3, b"masked").status_code == 200
    assert message(first).status_code == 204
    current = private.small.gateway.worker._journal.cohort_round
    current.load()  # as it is on disk
    assert message(first).headers[STAGE_HEADER] == "3"
    assert code_of(reply(first, 3, b"another")) == "duplicate"
    for device in (first, second, third):
        assert reply(device, 3, b"masked").status_code == 200
    found = private.replies(bundle)
    assert found is not None
    assert found.bodies == dict.fromkeys(range(3), b"masked")
    private.begin(Stage.CONFIRM, 0, 1, 2)
    assert reply(first, 4, b"marks").status_code == 200
    current.load()
    assert message(first).status_code == 204
    assert message(second).headers[STAGE_HEADER] == "4"


def test_replies_are_as_long_as_their_stage_allows(private: Private) -> None:
    first, k = private.devices[0], SECURE.neighbours
    limits = private.small.gateway.body_limits
    release = parse_adapter(private.asked.offer.release)
    values = sum(one.size for one in release.tensors.values())
    wanted = [116, 100 + 144 * k, 36 + 48 * k + 4 * values, 36 + 16 * k, 36 + 33 * k]
    assert [limits.reply(stage) for stage in Stage] == wanted
    for stage in (Stage.INVITE, Stage.COLLECT, Stage.CONFIRM, Stage.UNMASK):
        private.begin(stage, 0)
        assert code_of(reply(first, stage, b"x" * (wanted[stage - 1] + 1))) == "too_large"
        assert reply(first, stage, b"x" * wanted[stage - 1]).status_code == 200
    for path in ("/v1/rounds/0/secure/0", "/v1/rounds/0/secure/6", "/v1/rounds/0/secure/x"):
        assert code_of(first.ask("PUT", path, b"x")) == "no_stage"
    assert code_of(first.ask("PUT", "/v1/rounds/x/secure/2", b"x")) == "no_round"


def test_logs_and_metrics_name_no_device(tmp_path: Path) -> None:
    stream = io.StringIO()
    log_to(stream)
    with opened(tmp_path) as small:
        small.begin(private_offer(0, wanted=1))
        (device,) = devices(small, 1)
        body = ready_of(0, announced_by(small), 0)
        ready(device, 0, body)
        Private(small, private_offer(0), [device]).begin(Stage.INVITE, 0)
        small.control.get("/health")
        open_now = small.gateway.metrics.text().decode()
        reply(device, 2, b"boxes")
        reply(device, 2, b"others")
        metrics = small.gateway.metrics.text().decode()
    assert "gateway_round_stage 2.0" in open_now
    assert "gateway_round_awaited 1.0" in open_now
    assert 'gateway_replies_total{stage="2",verdict="received"} 1.0' in metrics
    assert 'gateway_replies_total{stage="2",verdict="duplicate"} 1.0' in metrics
    routes = {json.loads(line).get("route") for line in stream.getvalue().splitlines()}
    assert "/v1/rounds/{round}/secure/{stage}" in routes
    for secret in (public_key_of(device.key), body, body[100:], hashlib.sha256(body).digest()):
        assert secret[:8].hex() not in stream.getvalue() + metrics
