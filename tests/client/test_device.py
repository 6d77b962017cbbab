"""One device's life in a round: consent, policy, the offer, the training, the update."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.client.device import (
    Answer,
    Contribution,
    Declined,
    Device,
    Training,
    TrainingSetup,
)
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.policy import DeviceReading, Policy
from pocketquery.client.round_memory import ClientState, RoundMemory
from pocketquery.client.store.file import ROUNDS
from pocketquery.client.store.store import QueryStore
from pocketquery.client.store.stored_examples import distinct
from pocketquery.client.training.monitors import MonitorLimits
from pocketquery.client.training.prototypes import MatrixVectors
from pocketquery.client.transforms import norm_of
from pocketquery.client.update import decode_update
from pocketquery.sdk.bundle.adapter import pack_adapter, parse_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import public_key_of
from tests.synthetic_sentences import sentences
from tests.trainable_bundle import trainable_bundle

CONFIG = LocalConfig(steps=2, batch_size=4)
QUERIES = sentences(12)
KEY = bytes(range(32))
PUBLIC = public_key_of(KEY)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return Bundle.open(trainable_bundle(tmp_path_factory.mktemp("device") / "bundle"))


@pytest.fixture(scope="module")
def training_setup(bundle: Bundle) -> TrainingSetup:
    documents = sdk.load(bundle.path).encode(sentences(40))
    return TrainingSetup.of_bundle(bundle, documents)


@dataclass(frozen=True)
class Home:
    """What a round on one device is made of: its bundle, its training and its store."""

    bundle: Bundle
    training_setup: TrainingSetup
    store: QueryStore

    def offer(self, number: int = 0, **changes: object) -> Offer:
        adapter = sdk.load(self.bundle.path).adapter
        release = pack_adapter(adapter, manifest=self.bundle.manifest, version="1")
        return Offer(**{"round": number, "release": release, "config": CONFIG, **changes})  # type: ignore[arg-type]

    def device(
        self,
        memory: RoundMemory | None = None,
        setup: TrainingSetup | None = None,
        store: Any = None,
        **options: Any,
    ) -> Device:
        defaults = {"policy": Policy.always(), "readings": None, "limits": OfferLimits.none()}
        parts = setup or self.training_setup, store or self.store, memory or RoundMemory()
        return Device(*parts, **defaults | options)

    def type_queries(self) -> None:
        for query in QUERIES:
            self.store.add(query)


@pytest.fixture
def home(bundle: Bundle, training_setup: TrainingSetup, tmp_path: Path) -> Iterator[Home]:
    with QueryStore.open(tmp_path / "queries.sqlite") as store:
        store.give_consent()
        made = Home(bundle, training_setup, store)
        made.type_queries()
        yield made


def contribution(answer: Answer) -> Contribution:
    assert isinstance(answer, Contribution), answer
    return answer


def reason(answer: Answer) -> str:
    assert isinstance(answer, Declined), answer
    return answer.reason


def test_the_update_is_clipped_for_this_round_and_holds_no_query(home: Home) -> None:
    found = contribution(home.device().answer(home.offer(3, largest_weight=5.0)))
    update = decode_update(found.update)
    release = parse_adapter(home.offer().release)
    assert (update.header.round, update.header.base_version) == (3, "1")
    assert update.header.encoder_sha256 == release.encoder_sha256
    assert update.header.weight == 5.0  # of 8 queries that were trained on
    assert update.change.keys() == release.tensors.keys()
    assert 0 < norm_of(update.change) <= 2.0
    assert found.figures.keys() == {"loss", "drift", "effective_rank"}
    for query in QUERIES:
        assert query.encode() not in found.update


def test_a_round_gives_the_same_bytes_again_and_the_next_others(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "memory"
    first = contribution(home.device(RoundMemory(path)).answer(home.offer()))
    again = contribution(home.device(RoundMemory(path)).answer(home.offer()))
    later = contribution(home.device(RoundMemory(path)).answer(home.offer(1)))
    assert first == again
    assert decode_update(first.update).header.nonce != decode_update(later.update).header.nonce


def test_what_rounding_cut_off_joins_the_next_update(home: Home) -> None:
    memory = RoundMemory()
    plain = decode_update(contribution(home.device().answer(home.offer(compress=False))).update)
    home.device(memory).answer(home.offer())
    kept = memory.recall("next").residual
    assert kept.keys() == plain.change.keys()
    assert 0 < norm_of(dict(kept)) < 0.05 * norm_of(plain.change)
    assert not memory.recall("next").adapter
    same = RoundMemory(secret=bytes(32)), RoundMemory(secret=bytes(32))
    for one in same:
        one.attach(home.store.epoch)
    same[0].keep("before", ClientState(kept))
    both = []
    for one in same:
        sent = contribution(home.device(one).answer(home.offer(1)))
        lost = one.recall("next").residual
        both.append({n: v + lost[n] for n, v in decode_update(sent.update).change.items()})
    for name, value in kept.items():
        np.testing.assert_allclose(both[0][name] - both[1][name], value, atol=1e-6)
    ema = LocalConfig(steps=1, batch_size=4, client_init="ema")
    home.device(memory).answer(home.offer(1, config=ema))
    assert memory.recall("next").adapter.keys() == plain.change.keys()


def test_what_rounding_cut_off_joins_none_once_its_queries_expired(
    bundle: Bundle, training_setup: TrainingSetup, tmp_path: Path
) -> None:
    """A device that is open for long: nobody opens the store anew."""
    now = 1_800_000_000.0
    path, memory = tmp_path / ROUNDS, RoundMemory(tmp_path / ROUNDS)
    with QueryStore.open(tmp_path / "queries.sqlite", max_age_days=2, clock=lambda: now) as store:
        store.give_consent()
        home = Home(bundle, training_setup, store)
        one = home.device(memory)

        def before(number: int) -> bool:
            """Whether a round begins with what another left."""
            training = one.train(home.offer(number))
            assert isinstance(training, Training)
            return bool(training.before.residual)

        home.type_queries()
        contribution(one.answer(home.offer()))
        os.utime(path, (now, now))
        now += 3600.0
        assert before(1)
        for _ in range(2):
            now += 86_400.0
            home.type_queries()
        assert not before(2)
        contribution(one.answer(home.offer(3)))
        assert before(4)


def test_without_consent_it_declines_and_forgets(home: Home, tmp_path: Path) -> None:
    memory = RoundMemory(tmp_path / "memory")
    home.device(memory).answer(home.offer())
    home.store.withdraw_consent()
    assert "consent" in reason(home.device(memory).answer(home.offer(1)))
    assert not (tmp_path / "memory").exists()


class Watched:
    """A store that does something when it is asked for consent for the n-th time."""

    def __init__(self, store: QueryStore, count: int, action: Callable[[], None]) -> None:
        self._store, self._left, self._action = store, count, action

    @property
    def consent(self) -> bool:
        self._left -= 1
        if self._left == 0:
            self._action()
        return self._store.consent

    @property
    def epoch(self) -> str:
        return self._store.epoch

    def examples(self, limit: int | None = None) -> object:
        return self._store.examples(limit)

    def tidy(self) -> None:
        self._store.tidy()


@pytest.mark.parametrize("moment", range(2, 7))
@pytest.mark.parametrize("act", ["withdraw", "erase", "forget", "destroy"])
def test_what_is_erased_in_a_round_is_not_sent(
    home: Home, act: str, moment: int, tmp_path: Path
) -> None:
    """The app's own process erases, at any of the moments at which the device looks."""

    def erase() -> None:
        if act == "destroy":
            QueryStore.destroy(tmp_path / "queries.sqlite")
            return
        with QueryStore.open(tmp_path / "queries.sqlite") as other:
            if act == "withdraw":
                other.withdraw_consent()
            elif act == "erase":
                other.erase_all()
            else:
                other.forget(QUERIES[3].upper() + "?")

    path = tmp_path / "memory"
    contribution(home.device(RoundMemory(path)).answer(home.offer()))
    watched = Watched(home.store, moment, erase)
    found = home.device(RoundMemory(path), store=watched).answer(home.offer(1))
    assert ("erased" if act in ("erase", "forget") else "consent") in reason(found)
    assert not path.exists()
    assert len(home.store) == (len(QUERIES) - 1 if act == "forget" else 0)


def test_what_was_erased_between_rounds_is_in_no_later_update(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "memory"
    ema = LocalConfig(steps=2, batch_size=4, client_init="ema")
    contribution(home.device(RoundMemory(path)).answer(home.offer(config=ema)))
    assert RoundMemory(path).recall("next").adapter
    home.store.erase_all()
    home.type_queries()
    second, secret = home.offer(1, config=ema), bytes(32)
    after = home.device(RoundMemory(path, secret=secret)).answer(second)
    never = home.device(RoundMemory(secret=secret)).answer(second)
    assert contribution(after) == contribution(never)


def test_by_default_a_device_declines_what_would_isolate_a_query(home: Home) -> None:
    defaults = OfferLimits()
    one = LocalConfig(steps=1, batch_size=1)
    few = home.device(limits=defaults).answer(home.offer(config=LocalConfig()))
    assert "12, this device accepts at least 32" in reason(few)
    for query in sentences(40):
        home.store.add(query)
        home.store.add(query.upper() + " ")
    attack = home.offer(config=one, clip_norm=1e30, compress=False)
    assert "steps: found 1" in reason(home.device(limits=defaults).answer(attack))
    unclipped = home.offer(config=LocalConfig(), clip_norm=1e30)
    assert "clip_norm" in reason(home.device(limits=defaults).answer(unclipped))
    usual = home.offer(config=LocalConfig())
    found = contribution(home.device(limits=defaults).answer(usual))
    assert decode_update(found.update).header.weight == 40


def test_a_query_that_was_typed_again_and_again_counts_once(home: Home) -> None:
    for number in range(60):
        home.store.add(QUERIES[0] + "?" * (number % 3), ("a", "b"), "b" if number == 7 else None)
    found = home.device(limits=OfferLimits()).answer(home.offer(config=LocalConfig()))
    assert "12, this device accepts at least 32" in reason(found)
    kept = distinct(home.store.examples())
    assert [example.query.rstrip("?") for example in kept[:-1]] == QUERIES[1:]
    assert kept[-1].opened == "b"


def test_opened_results_count_only_where_enough_queries_have_one(home: Home) -> None:
    secret = bytes(32)
    texts = sentences(40)
    ids = MatrixVectors(home.training_setup.encoder.encode(texts), [str(n) for n in range(40)])
    known = replace(home.training_setup, documents=ids)
    opened = LocalConfig(steps=4, batch_size=4, opened_loss_weight=1.0)

    def update(least: int) -> bytes:
        limits = replace(OfferLimits.none(), least_queries=least)
        memory = RoundMemory(secret=secret)
        answer = home.device(memory, setup=known, limits=limits).answer(home.offer(config=opened))
        return contribution(answer).update

    assert update(1) == update(2)  # no query has one
    home.store.add(QUERIES[0], ("0", "1"), "1")
    assert update(1) != update(2)
    before = update(2)
    home.store.record_opened(QUERIES[0], "0")
    assert update(2) == before
    # One of a document that the index no longer has is not trained on, and counts for nothing.
    home.store.add(QUERIES[1], ("gone", "1"), "gone")
    assert update(1) != update(2) == update(3)


def test_two_offers_in_one_round_do_not_differ_by_one_step_alone(home: Home) -> None:
    memory = RoundMemory()
    config = LocalConfig(steps=1, batch_size=4)
    offers = (
        home.offer(config=one, compress=False, clip_norm=2.0)
        for one in (config, config, replace(config, anchor_weight=5.0 + 1e-9))
    )
    first, again, other = (
        decode_update(contribution(home.device(memory).answer(one)).update) for one in offers
    )
    assert first.header.nonce == again.header.nonce == other.header.nonce
    apart = {name: value - other.change[name] for name, value in first.change.items()}
    assert norm_of({n: v - again.change[n] for n, v in first.change.items()}) == 0
    assert norm_of(apart) > 0.1 * norm_of(first.change)


def test_a_device_may_keep_its_figures_to_itself(home: Home) -> None:
    assert contribution(home.device(figures=False).answer(home.offer())).figures == {}


def test_the_policy_is_asked_before_and_during_the_training(home: Home) -> None:
    resting = DeviceReading(idle=True, charging=True, unmetered=True, temperature_c=20.0)
    strict = Policy(min_examples=3)
    contribution(home.device(policy=strict, readings=resting).answer(home.offer()))
    busy = DeviceReading(idle=False, charging=True, unmetered=True, temperature_c=20.0)
    found = home.device(policy=strict, readings=busy).answer(home.offer())
    assert reason(found) == "the device is in use"
    hurried = Policy(**{**vars(Policy.always()), "max_seconds": 1e-9})
    found = home.device(policy=hurried).answer(home.offer())
    assert "takes longer than" in reason(found)


def test_too_few_queries_are_a_reason_not_to_train(home: Home) -> None:
    home.store.erase_all()
    assert "0 queries" in reason(home.device().answer(home.offer()))


def test_a_training_that_drifts_is_stopped_and_nothing_is_sent(home: Home) -> None:
    config = LocalConfig(steps=5, batch_size=4, learning_rate=0.5, limits=MonitorLimits(drift=0.01))
    found = home.device().answer(home.offer(config=config))
    assert "drift" in reason(found)


def test_a_changed_or_unsigned_release_is_refused(home: Home) -> None:
    good = home.offer()
    changed = bytearray(good.release)
    changed[-1] ^= 1
    found = home.device().answer(home.offer(release=bytes(changed)))
    assert "it was changed" in reason(found)
    signed_only = TrainingSetup(
        home.training_setup.encoder, home.training_setup.step, home.training_setup.documents, PUBLIC
    )
    assert "not signed" in reason(home.device(setup=signed_only).answer(good))
    signed = pack_adapter(
        parse_adapter(good.release).tensors,
        manifest=home.bundle.manifest,
        version="1",
        signing_key=KEY,
    )
    contribution(home.device(setup=signed_only).answer(home.offer(release=signed)))


def test_an_offer_of_other_tensors_is_declined(home: Home) -> None:
    tensors = {"adapter.layers.0.query.down": np.zeros((2, 3), np.float32)}
    release = pack_adapter(tensors, manifest=home.bundle.manifest, version="1")
    assert "adapter" in reason(home.device().answer(home.offer(release=release)))
