"""Stages of private rounds as Flower messages, whatever either side sends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as WireMessage
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.client import device_files
from pocketquery.client.app import app
from pocketquery.client.device import Declined
from pocketquery.client.device_files import open_device, open_participant, rules_of
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.keys import (
    DEVICE_KEY,
    AgreementKey,
    Certificate,
    DeviceKey,
    federation_id,
    sign_certificate,
)
from pocketquery.client.private.messages import Announcement, Stage
from pocketquery.client.private.replies import Ready
from pocketquery.client.private.rules import DeviceRules, Trained
from pocketquery.client.private.state_file import SecureProgress, SecureState, StateFile
from pocketquery.client.private.transport import (
    MESSAGE_TYPE,
    SecureReply,
    handle_secure,
    read_secure_reply,
    secure_records,
)
from pocketquery.client.records import offer_records, read_reply
from pocketquery.client.store.file import SECURE
from pocketquery.client.store.store import QueryStore
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document
from tests.synthetic_sentences import sentences
from tests.trainable_bundle import trainable_bundle

AUTHORITY = bytes(range(32))
FEDERATION = federation_id("clinics")
ANNOUNCER = AgreementKey(bytes(range(32)))
ANNOUNCEMENT = Announcement(FEDERATION, ANNOUNCER.public, Privacy()).to_bytes()
OFFER = Offer(3, b"release", LocalConfig(steps=3))


@pytest.fixture(autouse=True)
def task() -> None:
    """Messages are made by a task; here by this one."""
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1


class Recording:
    """A device that answers what it was told to and remembers what it was asked."""

    def __init__(self, answer: bytes | Declined | Callable[[], bytes]) -> None:
        self._answer = answer
        self.asked: list[tuple[Stage, bytes, Offer | None]] = []

    def answer(self, stage: Stage, body: bytes, offer: Offer | None) -> bytes | Declined:
        self.asked.append((stage, body, offer))
        return self._answer() if callable(self._answer) else self._answer


def over_the_wire(message: Message) -> Message:
    return message_from_proto(WireMessage.FromString(message_to_proto(message).SerializeToString()))


def sent(content: RecordDict) -> Message:
    return over_the_wire(Message(content, 7, MESSAGE_TYPE, group_id="3.1"))


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("body", [b"", bytes(range(256)) * 300])
def test_a_stage_goes_down_and_up_as_it_is(stage: Stage, body: bytes) -> None:
    device = Recording(body[::-1])
    offer = OFFER if stage is Stage.OFFER else None
    reply = over_the_wire(handle_secure(sent(secure_records(stage, body, offer)), device))
    assert device.asked == [(stage, body, offer)]
    assert read_secure_reply(reply) == SecureReply(stage, body[::-1])


def test_a_reply_takes_little_more_than_its_body() -> None:
    message = sent(secure_records(Stage.COLLECT, b"y" * 70_000))
    device = Recording(b"y" * 70_000)
    for one in (message, handle_secure(message, device)):
        assert len(message_to_proto(one).SerializeToString()) < 70_000 + 300


def test_what_goes_wrong_stays_in_the_log_of_the_device(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> bytes:
        raise ValueError("the query 'renew passport' is no number")

    def refused() -> bytes:
        raise InvalidInputError("the user's own reason")

    caplog.set_level(logging.INFO)
    message = sent(secure_records(Stage.CONFIRM, b"body"))
    for answer in (broken, refused, Declined("the battery is at 3 %")):
        reply = over_the_wire(handle_secure(message, Recording(answer)))
        assert read_secure_reply(reply) == SecureReply(0, None)
        wire = message_to_proto(reply).SerializeToString()
        assert not any(word in wire for word in (b"passport", b"reason", b"battery"))
    for wanted in ("renew passport", "own reason", "battery"):
        assert wanted in caplog.text


RECORDS = st.dictionaries(
    st.sampled_from(["stage", "body", "more"]),
    st.one_of(st.integers(-9, 9), st.binary(max_size=9), st.text(max_size=9), st.booleans()),
)


@given(values=RECORDS, name=st.sampled_from(["secure", "other"]))
def test_what_is_no_stage_is_declined(values: dict[str, Any], name: str) -> None:
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    stage, body = values.get("stage", 0), values.get("body", 0)
    whole = name == "secure" and type(stage) is int and type(body) is bytes
    known = whole and stage in range(2, 6)  # an offer, which is missing, goes with the first
    message = sent(RecordDict({name: ConfigRecord(values)}))
    device = Recording(b"reply")
    found = read_secure_reply(over_the_wire(handle_secure(message, device)))
    assert found == (SecureReply(stage, b"reply") if known else SecureReply(0, None))
    assert len(device.asked) == known
    answer = read_secure_reply(message)
    assert answer == SecureReply(int(stage or 0), body) if known else answer.body in (b"", body)


def test_a_reply_of_a_device_that_failed_is_told_from_one_that_declined() -> None:
    reply = Message(Error(3, "it died"), reply_to=sent(RecordDict()))
    assert read_secure_reply(over_the_wire(reply)) == SecureReply(0, None, "it died")


@pytest.fixture(scope="module")
def supernode(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The configuration of one whose device was enrolled."""
    folder = tmp_path_factory.mktemp("supernode")
    bundle = trainable_bundle(folder / "bundle")
    encoder, texts = sdk.load(bundle), sentences(40)
    with create_index(folder / "index", space_id=encoder.space_id, dimension=48) as builder:
        builder.add([Document(str(n), t) for n, t in enumerate(texts)], encoder.encode(texts))
    state = folder / "state"
    state.mkdir()
    with QueryStore.open(state / "queries.sqlite") as store:
        store.give_consent()
        for text in texts:
            store.add(text)
    key = DeviceKey.create(state / DEVICE_KEY)
    certificate = sign_certificate(AUTHORITY, FEDERATION, key.public, int(time.time()) + 10_000)
    (folder / "certificate").write_bytes(certificate.to_bytes())
    release = pack_adapter(encoder.adapter, manifest=encoder.manifest, version="1")
    (folder / "release").write_bytes(release)
    config: dict[str, Any] = {name: str(folder / name) for name in ("bundle", "index", "state")}
    config |= {"policy": "always", "privacy": "any", "certificate": str(folder / "certificate")}
    return config | {"enrolment": public_key_of(AUTHORITY).hex()}


def offer_of(config: dict[str, Any]) -> Offer:
    release = (Path(config["state"]).parent / "release").read_bytes()
    return Offer(4, release, LocalConfig(steps=5))


def ask(config: dict[str, Any], content: RecordDict, kind: str) -> Message:
    message = over_the_wire(Message(content, 7, kind, group_id="4"))
    return over_the_wire(app(message, Context(1, 7, config, RecordDict(), {})))


def test_an_enrolled_device_trains_for_private_rounds(
    supernode: dict[str, Any],
) -> None:
    offer = offer_of(supernode)
    content = secure_records(Stage.OFFER, ANNOUNCEMENT, offer)
    found = read_secure_reply(ask(supernode, content, MESSAGE_TYPE))
    assert found.stage == Stage.OFFER
    assert found.body is not None
    said = Ready.parse(found.body)
    assert said.certificate.to_bytes() == Path(supernode["certificate"]).read_bytes()
    assert said.is_proven(ANNOUNCER, FEDERATION, offer.round)
    state = StateFile(Path(supernode["state"]) / SECURE).load()
    assert state is not None
    assert state.progress is SecureProgress.READY
    assert read_reply(ask(supernode, offer_records(offer), "train")).update is None
    allowing = {**supernode, "secure": "allowed"}
    assert read_reply(ask(allowing, offer_records(offer), "train")).update
    unreadable = secure_records(Stage.INVITE, b"no invitation")
    assert read_secure_reply(ask(supernode, unreadable, MESSAGE_TYPE)) == SecureReply(0, None)
    for mistaken in ({"least": 0}, {"noise": 1}, {"certificate": supernode["index"]}):
        failed = ask({**supernode, **mistaken}, content, MESSAGE_TYPE)
        assert read_secure_reply(failed) == SecureReply(0, None)


def test_without_enrolment_only_plain_rounds(
    supernode: dict[str, Any],
) -> None:
    offer = offer_of(supernode)
    private = ("enrolment", "certificate", "privacy")
    plain = {name: value for name, value in supernode.items() if name not in private}
    assert read_reply(ask(plain, offer_records(offer), "train")).update
    content = secure_records(Stage.OFFER, ANNOUNCEMENT, offer)
    assert read_secure_reply(ask(plain, content, MESSAGE_TYPE)) == SecureReply(0, None)
    with pytest.raises(InvalidInputError, match="enrolment and certificate missing"):
        open_participant({**plain, "secure": "required"}).__enter__()


def test_what_a_device_insists_on_comes_from_its_configuration(
    supernode: dict[str, Any], tmp_path: Path
) -> None:
    revoked = tmp_path / "revoked"
    revoked.write_text("ab" * 32 + "\n" + "cd" * 32 + "\n", encoding="ascii")
    given = {"least": 30, "collusion": 0.1, "noise-least": 3.0, "revoked": str(revoked)}
    with open_participant(supernode | given) as participant:
        rules = participant._rules
    assert (rules.least, rules.collusion, rules.noise_least) == (30, 0.1, 3.0)
    assert rules.revoked == {bytes.fromhex("ab" * 32), bytes.fromhex("cd" * 32)}
    other = Certificate.parse(Path(supernode["certificate"]).read_bytes())
    strange = tmp_path / "certificate"
    wrong = sign_certificate(AUTHORITY, FEDERATION, DeviceKey(bytes(32)).public, other.expiry)
    strange.write_bytes(wrong.to_bytes())
    with pytest.raises(InvalidInputError, match="have this one certified"):
        open_participant(supernode | {"certificate": str(strange)}).__enter__()


@pytest.mark.parametrize("certificate", [None, "", "phone-7.certificate"])
@pytest.mark.parametrize("enrolment", [None, "", "ab" * 32])
@pytest.mark.parametrize("insisted", [None, *device_files._RULES, "revoked"])
def test_a_device_that_insists_on_private_rounds_is_none_of_plain_ones(
    enrolment: str | None, certificate: str | None, insisted: str | None
) -> None:
    given = {"enrolment": enrolment, "certificate": certificate}
    private: dict[str, object] = {name: one for name, one in given.items() if one is not None}
    private |= {insisted: 1} if insisted else {}
    config = {"bundle": "bundle", "index": "index", "state": "state"} | private
    if not private:
        assert rules_of(config) is None
    elif not (enrolment and certificate):
        with pytest.raises(InvalidInputError, match=r"(enrolment|certificate) missing or empty"):
            open_device(config).__enter__()


@pytest.mark.parametrize(
    "line", ["ab", "ab" * 31, "ab" * 33, "ab" * 31 + "a", "zz" * 32, "-----BEGIN", "ab " * 32, "é"]
)
def test_what_is_no_key_revokes_nobody(
    supernode: dict[str, Any], tmp_path: Path, line: str
) -> None:
    revoked = tmp_path / "revoked"
    given = supernode | {"revoked": str(revoked)}
    with pytest.raises(InvalidInputError, match="cannot be read"):
        rules_of(given)
    revoked.write_text(f"{'AB' * 32} \n\n", encoding="utf-8")
    rules = rules_of(given)
    assert rules is not None
    assert rules.revoked == {bytes.fromhex("ab" * 32)}
    revoked.write_text(f"{'ab' * 32}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(
        InvalidInputError, match=r"revoked, line 3: .* 64 hexadecimal digits a line"
    ):
        rules_of(given)


@pytest.mark.parametrize(("kept", "of_today"), [(0.0, True), (1e12, False), (1e12, True)])
def test_opening_forgets_an_old_round(
    supernode: dict[str, Any], kept: float, of_today: bool
) -> None:
    """Also one that takes part in plain rounds alone by now."""
    folder = Path(supernode["state"])
    with QueryStore.open(folder / "queries.sqlite") as store:
        epoch = store.epoch if of_today else "before"
    trained = Trained(FEDERATION, 4, "", "", 3, 1.0)
    change = np.ones(3, np.float32)
    state = SecureState(SecureProgress.READY, epoch, trained, kept, {}, {}, change)
    StateFile(folder / SECURE).keep(state)
    with open_device({name: supernode[name] for name in ("bundle", "index", "state")}):
        assert (folder / SECURE).exists() == (kept > 0 and of_today)
    StateFile(folder / SECURE).erase()


def test_every_rule_has_its_key_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "privacy.md").read_text(encoding="utf-8")
    for one in fields(DeviceRules):
        key = one.name.replace("_", "-")
        assert f"``{key}``" in (device_files.__doc__ or ""), key
        assert f"`{key}`" in page, key
