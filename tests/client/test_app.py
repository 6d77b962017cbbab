"""Flower's side of a device: offers and replies as messages, whatever the other side sends."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.app import MetricRecord as Metrics
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as WireMessage
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.client import device_files
from pocketquery.client.app import app, handle
from pocketquery.client.device import Answer, Contribution, Declined
from pocketquery.client.device_files import open_device
from pocketquery.client.figures import FIGURES
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.policy import Policy
from pocketquery.client.records import Reply, offer_records, read_reply
from pocketquery.client.store.store import QueryStore
from pocketquery.client.training.monitors import MonitorLimits
from pocketquery.client.update import decode_update
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.bundle.writing import write_bundle
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError, SignatureError
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document
from tests.synthetic_sentences import sentences
from tests.trainable_bundle import trainable_bundle


@pytest.fixture(autouse=True)
def task() -> None:
    """Messages are made by a task; here by this one."""
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1


class Recording:
    """A device that answers what it was told to and remembers what it was offered."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.offers: list[Offer] = []

    def answer(self, offer: Offer) -> Answer:
        self.offers.append(offer)
        return self._answer


def sent(content: RecordDict) -> Message:
    """A message with ``content`` as it arrives."""
    return over_the_wire(Message(content, 7, "train", group_id="3"))


def over_the_wire(message: Message) -> Message:
    return message_from_proto(WireMessage.FromString(message_to_proto(message).SerializeToString()))


def answered(content: RecordDict) -> Message:
    """A device's message with ``content`` as the server gets it."""
    return over_the_wire(Message(content, reply_to=sent(RecordDict())))


def test_an_offer_arrives_as_it_was_made() -> None:
    config = LocalConfig(steps=3, client_init="ema", limits=MonitorLimits(drift=0.125))
    offer = Offer(5, bytes(range(256)), config, clip_norm=0.5, largest_weight=8.0, compress=False)
    device = Recording(Declined(""))
    handle(sent(offer_records(offer)), device)
    assert device.offers == [offer]


def test_an_update_and_its_figures_arrive_and_nothing_else() -> None:
    figures = {"loss": 0.25, "drift": 0.5, "effective_rank": 3.0, "queries": 12.0}
    device = Recording(Contribution(b"\x00update\xff", figures))
    reply = over_the_wire(handle(sent(offer_records(Offer(0, b"x"))), device))
    found = read_reply(reply)
    assert found.update == b"\x00update\xff"
    assert found.figures == {name: figures[name] for name in FIGURES}
    assert found.failed is None
    assert "queries" not in reply.content.metric_records["figures"]


def test_a_device_that_declines_does_not_say_why() -> None:
    device = Recording(Declined("the battery of the user's phone is at 3 %"))
    reply = over_the_wire(handle(sent(offer_records(Offer(0, b"x"))), device))
    found = read_reply(reply)
    assert (found.update, found.figures, found.failed) == (None, {}, None)
    assert b"battery" not in message_to_proto(reply).SerializeToString()


SOUND = Offer(0, b"x")
RELEASE = offer_records(SOUND)["release"]


def record_of(data: object) -> ConfigRecord:
    return ConfigRecord({"offer": data})  # type: ignore[dict-item]


def with_bytes(data: object) -> RecordDict:
    return RecordDict({"offer": record_of(data), "release": RELEASE})


def with_setting(name: str, value: Any) -> RecordDict:
    return with_bytes(json.dumps(SOUND.to_dict() | {name: value}).encode())


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"offer": record_of(SOUND.to_bytes())}),
        RecordDict({"offer": record_of(SOUND.to_bytes()), "release": ArrayRecord()}),
        RecordDict(
            {
                "offer": record_of(SOUND.to_bytes()),
                "release": ArrayRecord({"release": Array(np.ones(3))}),
            }
        ),
        RecordDict({"offer": record_of(Offer(0, b"y").to_bytes()), "release": RELEASE}),
        with_bytes("text"),
        with_bytes(7),
        with_bytes(b"[" * 50_000),
        with_bytes(b" " * (1 << 20) + SOUND.to_bytes()),
        with_setting("version", "0"),
        with_setting("local", {"limits": {}, "steps": -1}),
        with_setting("local", {"limits": {}, "newer": 1}),
        with_setting("local", {"limits": {"drift": True}}),
        with_setting("local", {}),
        with_setting("round", 10**18),
        with_setting("round", True),
        with_setting("clip_norm", "1"),
        with_setting("compress", 1),
    ],
)
def test_a_message_without_an_offer_of_this_version_is_declined(content: RecordDict) -> None:
    device = Recording(Contribution(b"x", {}))
    assert read_reply(over_the_wire(handle(sent(content), device))).update is None
    assert device.offers == []


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
LOCAL_NAMES = [one.name for one in fields(LocalConfig)]
locals_: st.SearchStrategy[Any] = json_values | st.dictionaries(
    st.sampled_from([*LOCAL_NAMES, "unknown"]), json_values, max_size=4
).map(lambda values: {"limits": {}, **values})
NAMES = st.sampled_from([*SOUND.to_dict(), "x"])


@given(
    local=locals_,
    changes=st.dictionaries(NAMES, json_values, max_size=3),
    missing=st.sets(NAMES, max_size=2),
)
@hypothesis_settings(deadline=None)
def test_whatever_is_offered_the_device_declines_or_was_asked_what_it_may_be(
    local: Any, changes: dict[str, Any], missing: set[str]
) -> None:
    values = SOUND.to_dict() | {"local": local} | changes
    data = json.dumps({name: values[name] for name in values.keys() - missing}).encode()
    device = Recording(Declined(""))
    message = Message(with_bytes(data), 7, "train", group_id="3")
    reply = read_reply(over_the_wire(handle(message, device)))
    assert (reply.update, reply.failed) == (None, None)
    for offer in device.offers:
        assert 0 <= offer.round < 10**18
        assert isinstance(offer.config, LocalConfig)
        assert type(offer.clip_norm) is float
        assert type(offer.compress) is bool


class Failing:
    """A device whose disk, say, fails, with an error that quotes a query."""

    def answer(self, offer: Offer) -> Answer:
        raise OSError("cannot write 'how to hide money'")


def test_an_error_declines_and_its_text_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply = over_the_wire(handle(sent(offer_records(Offer(0, b"x"))), Failing()))
    assert (read_reply(reply).update, read_reply(reply).failed) == (None, None)
    assert b"money" not in message_to_proto(reply).SerializeToString()
    assert "how to hide money" in caplog.text


def test_an_unopened_device_logs_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config: dict[str, Any] = {n: str(tmp_path / n) for n in ("bundle", "index", "state")}
    message = sent(offer_records(Offer(2, b"x")))
    reply = over_the_wire(app(message, Context(1, 7, config, RecordDict(), {})))
    assert (read_reply(reply).update, read_reply(reply).failed) == (None, None)
    assert str(tmp_path).encode() not in message_to_proto(reply).SerializeToString()
    assert str(tmp_path) in caplog.text


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


HUGE = npy(np.zeros(4, np.uint8)).replace(b"(4,)", b"(99999999999999,)")[:200]


@pytest.mark.parametrize(
    "data", [b"", b"\x93NUMPY", npy(np.ones(3)), npy(np.ones((2, 2), np.uint8)), HUGE]
)
def test_bytes_that_are_no_array_reach_validation_as_they_are(data: bytes) -> None:
    array = Array("uint8", (4,), "numpy.ndarray", data)
    found = read_reply(answered(RecordDict({"update": ArrayRecord({"update": array})})))
    assert found.update == data


@given(
    data=st.binary(max_size=300),
    figures=st.dictionaries(
        st.sampled_from([*FIGURES, "other"]),
        st.one_of(st.floats(), st.integers(-(2**63), 2**63 - 1), st.lists(st.floats(), max_size=2)),
    ),
)
def test_whatever_a_device_sends_reading_it_does_not_raise(data: bytes, figures: Any) -> None:
    array = Array("uint8", (len(data),), "numpy.ndarray", data)
    content = RecordDict({"update": ArrayRecord({"update": array}), "figures": Metrics(figures)})
    found = read_reply(answered(content))
    assert isinstance(found.update, bytes)
    assert all(name in FIGURES and abs(value) < 1e6 for name, value in found.figures.items())


def test_a_device_that_failed_or_sent_nothing() -> None:
    failed = over_the_wire(Message(Error(1, "out of memory"), reply_to=sent(RecordDict())))
    assert read_reply(failed).failed == "out of memory"
    assert read_reply(answered(RecordDict())).update == b""


def test_a_supernode_opens_the_device_its_configuration_names(tmp_path: Path) -> None:
    bundle = trainable_bundle(tmp_path / "bundle")
    encoder, texts = sdk.load(bundle), sentences(30)
    with create_index(tmp_path / "index", space_id=encoder.space_id, dimension=48) as builder:
        builder.add([Document(str(n), t) for n, t in enumerate(texts)], encoder.encode(texts))
    (tmp_path / "state").mkdir()
    with QueryStore.open(tmp_path / "state" / "queries.sqlite") as store:
        store.give_consent()
        for text in texts:
            store.add(text)
    config: dict[str, Any] = {name: str(tmp_path / name) for name in ("bundle", "index", "state")}
    config |= {"policy": "always", "least-queries": 30}
    release = pack_adapter(encoder.adapter, manifest=encoder.manifest, version="1")

    def reply(steps: int, **changes: Any) -> Reply:
        message = sent(offer_records(Offer(2, release, LocalConfig(steps=steps))))
        context = Context(1, 7, config | changes, RecordDict(), {})
        return read_reply(over_the_wire(app(message, context)))

    found = reply(5)
    assert found.update is not None
    assert decode_update(found.update).header.round == 2
    assert found.figures.keys() == set(FIGURES)
    assert (tmp_path / "state" / "rounds.safetensors").is_file()
    assert reply(5, figures=False).figures == {}
    assert reply(5, policy="phone").update is None  # nothing says that it is idle
    assert reply(5, **{"least-queries": 31}).update is None
    assert reply(5, **{"largest-learning-rate": 1e-4}).update is None
    assert reply(1).update is None
    assert reply(1, **{"least-steps": 1, "least-queries": 16}).update is not None
    # The store is the app's, and so is how much of it is kept, and for how long.
    with QueryStore.open(tmp_path / "state" / "queries.sqlite", max_bytes=8 << 20) as store:
        for letter in "ab":
            store.add(letter * (3 << 20))
    assert reply(5, **{"least-queries": 33}).update is None
    with QueryStore.open(tmp_path / "state" / "queries.sqlite") as store:
        assert len(store) == 32


def test_a_supernode_keeps_requiring_signatures(
    tmp_path: Path,
) -> None:
    key, other = bytes(range(32)), bytes(range(1, 33))
    public = public_key_of(key).hex()
    bundle = Bundle.open(trainable_bundle(tmp_path / "unsigned"))
    contents = {name: bundle.read(name) for name in bundle.manifest.files}
    write_bundle(tmp_path / "bundle", bundle.manifest, contents, signing_key=key)
    with create_index(
        tmp_path / "index", space_id=bundle.manifest.space.id, dimension=48
    ) as builder:
        builder.add([Document("a", "one")], np.eye(48, dtype=np.float32)[:1])
    config = {name: str(tmp_path / name) for name in ("bundle", "index", "state")}
    with open_device(config | {"public-key": public}):
        pass
    unsigned = config | {"bundle": str(tmp_path / "unsigned")}
    with pytest.raises(SignatureError, match="found no signature"), open_device(unsigned):
        pass  # neither bundle nor releases, though the configuration names no key any more
    with open_device(config) as device:
        release = pack_adapter(bundle.adapter(), manifest=bundle.manifest, version="1")
        store = QueryStore.open(tmp_path / "state" / "queries.sqlite")
        store.give_consent()
        for text in sentences(40):
            store.add(text)
        store.close()
        device._policy = Policy.always()
        answer = device.answer(Offer(0, release, LocalConfig(steps=5)))
        assert isinstance(answer, Declined)
        assert "is not signed, expected a signature" in answer.reason
    changed = config | {"public-key": public_key_of(other).hex()}
    with pytest.raises(SignatureError, match="replaced-key"), open_device(changed):
        pass
    write_bundle(tmp_path / "bundle", bundle.manifest, contents, signing_key=other)
    with open_device(changed | {"replaced-key": public}):
        pass


def test_every_limit_has_its_key_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")
    for one in fields(OfferLimits):
        key = one.name.replace("_", "-")
        assert f"``{key}``" in (device_files.__doc__ or ""), key
        assert f"| `{key}` | {one.default} |" in text, key


def test_a_supernode_without_its_files_says_what_is_missing(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInputError, match="found public_key in the SuperNode's"),
        open_device({"bundle": "b", "public_key": "publisher.pem"}),
    ):
        pass
    with pytest.raises(InvalidInputError, match="found no 'index'"), open_device({"bundle": "b"}):
        pass
    config = {name: str(tmp_path / name) for name in ("bundle", "index", "state")}
    with (
        pytest.raises(InvalidInputError, match="policy is 'never'"),
        open_device({**config, "policy": "never"}),
    ):
        pass
    for name, value in (("least-steps", 0), ("largest-clip", "x"), ("figures", "no")):
        with (
            pytest.raises(InvalidInputError, match=name.replace("-", "_")),
            open_device({**config, name: value}),
        ):
            pass
    assert not (tmp_path / "state").exists()
    with pytest.raises(ArtifactNotFoundError), open_device(config):
        pass
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
