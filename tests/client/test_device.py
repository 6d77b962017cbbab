"""One device's life in a round: consent, policy, the offer, the training, the update."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

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


@pytest.fixture
def store(tmp_path: Path) -> Iterator[QueryStore]:
    with QueryStore.open(tmp_path / "queries.sqlite") as opened:
        opened.give_consent()
        for query in QUERIES:
            opened.add(query)
        yield opened


def offer(bundle: Bundle, number: int = 0, **changes: object) -> Offer:
    adapter = sdk.load(bundle.path).adapter
    release = pack_adapter(adapter, manifest=bundle.manifest, version="1")
    return Offer(**{"round": number, "release": release, "config": CONFIG, **changes})  # type: ignore[arg-type]


def device(
    training_setup: TrainingSetup,
    store: QueryStore,
    memory: RoundMemory | None = None,
    policy: Policy | None = None,
    reading: DeviceReading | None = None,
    limits: OfferLimits | None = None,
) -> Device:
    return Device(
        training_setup,
        store,
        memory or RoundMemory(),
        policy=policy or Policy.always(),
        readings=reading,
        limits=limits or OfferLimits.none(),
    )


def contribution(answer: Answer) -> Contribution:
    assert isinstance(answer, Contribution), answer
    return answer


def reason(answer: Answer) -> str:
    assert isinstance(answer, Declined), answer
    return answer.reason


def test_the_update_is_for_this_round_within_the_clip_and_says_nothing_of_the_user(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    found = contribution(device(training_setup, store).answer(offer(bundle, 3, largest_weight=5.0)))
    update = decode_update(found.update)
    release = parse_adapter(offer(bundle).release)
    assert (update.header.round, update.header.base_version) == (3, "1")
    assert update.header.encoder_sha256 == release.encoder_sha256
    assert update.header.weight == 5.0  # of 8 queries that were trained on
    assert update.change.keys() == release.tensors.keys()
    assert 0 < norm_of(update.change) <= 2.0
    assert found.figures.keys() == {"loss", "drift", "effective_rank"}
    for query in QUERIES:
        assert query.encode() not in found.update


def test_asked_twice_in_a_round_it_gives_the_same_bytes_and_in_the_next_others(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore, tmp_path: Path
) -> None:
    path = tmp_path / "memory"
    first = contribution(device(training_setup, store, RoundMemory(path)).answer(offer(bundle)))
    again = contribution(device(training_setup, store, RoundMemory(path)).answer(offer(bundle)))
    later = contribution(device(training_setup, store, RoundMemory(path)).answer(offer(bundle, 1)))
    assert first == again
    assert decode_update(first.update).header.nonce != decode_update(later.update).header.nonce


def test_what_rounding_cut_off_joins_the_next_update(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    memory = RoundMemory()
    plain = decode_update(
        contribution(device(training_setup, store).answer(offer(bundle, compress=False))).update
    )
    device(training_setup, store, memory).answer(offer(bundle))
    kept = memory.recall("next").residual
    assert kept.keys() == plain.change.keys()
    assert 0 < norm_of(dict(kept)) < 0.05 * norm_of(plain.change)
    assert not memory.recall("next").adapter
    same = RoundMemory(secret=bytes(32)), RoundMemory(secret=bytes(32))
    for one in same:
        one.attach(store.epoch)
    same[0].keep("before", ClientState(kept))
    both = []
    for one in same:
        sent = contribution(device(training_setup, store, one).answer(offer(bundle, 1)))
        lost = one.recall("next").residual
        both.append({n: v + lost[n] for n, v in decode_update(sent.update).change.items()})
    for name, value in kept.items():
        np.testing.assert_allclose(both[0][name] - both[1][name], value, atol=1e-6)
    ema = LocalConfig(steps=1, batch_size=4, client_init="ema")
    device(training_setup, store, memory).answer(offer(bundle, 1, config=ema))
    assert memory.recall("next").adapter.keys() == plain.change.keys()


def test_what_rounding_cut_off_joins_none_once_its_queries_expired(
    bundle: Bundle, training_setup: TrainingSetup, tmp_path: Path
) -> None:
    """A device that is open for long: nobody opens the store anew."""
    now = 1_800_000_000.0
    path, memory = tmp_path / ROUNDS, RoundMemory(tmp_path / ROUNDS)
    with QueryStore.open(tmp_path / "queries.sqlite", max_age_days=2, clock=lambda: now) as store:
        store.give_consent()
        one = device(training_setup, store, memory)

        def before(number: int) -> bool:
            """Whether a round begins with what another left."""
            training = one.train(offer(bundle, number))
            assert isinstance(training, Training)
            return bool(training.before.residual)

        for query in QUERIES:
            store.add(query)
        contribution(one.answer(offer(bundle)))
        os.utime(path, (now, now))
        now += 3600.0
        assert before(1)
        for _ in range(2):
            now += 86_400.0
            for query in QUERIES:
                store.add(query)
        assert not before(2)
        contribution(one.answer(offer(bundle, 3)))
        assert before(4)


def test_without_consent_it_declines_and_forgets(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore, tmp_path: Path
) -> None:
    memory = RoundMemory(tmp_path / "memory")
    device(training_setup, store, memory).answer(offer(bundle))
    store.withdraw_consent()
    assert "consent" in reason(device(training_setup, store, memory).answer(offer(bundle, 1)))
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
def test_what_is_erased_during_a_round_is_not_sent(
    bundle: Bundle,
    training_setup: TrainingSetup,
    store: QueryStore,
    act: str,
    moment: int,
    tmp_path: Path,
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
    contribution(device(training_setup, store, RoundMemory(path)).answer(offer(bundle)))
    watched = Watched(store, moment, erase)
    found = device(training_setup, watched, RoundMemory(path)).answer(offer(bundle, 1))  # type: ignore[arg-type]
    assert ("erased" if act in ("erase", "forget") else "consent") in reason(found)
    assert not path.exists()
    assert len(store) == (len(QUERIES) - 1 if act == "forget" else 0)


def test_what_an_erased_store_left_between_rounds_is_in_no_later_update(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore, tmp_path: Path
) -> None:
    path = tmp_path / "memory"
    ema = LocalConfig(steps=2, batch_size=4, client_init="ema")
    contribution(device(training_setup, store, RoundMemory(path)).answer(offer(bundle, config=ema)))
    assert RoundMemory(path).recall("next").adapter
    store.erase_all()
    for query in QUERIES:
        store.add(query)
    secret = bytes(32)
    after = device(training_setup, store, RoundMemory(path, secret=secret)).answer(
        offer(bundle, 1, config=ema)
    )
    never = device(training_setup, store, RoundMemory(secret=secret)).answer(
        offer(bundle, 1, config=ema)
    )
    assert contribution(after) == contribution(never)


def test_by_default_a_device_declines_what_would_isolate_a_query(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    defaults = OfferLimits()
    one = LocalConfig(steps=1, batch_size=1)
    few = device(training_setup, store, limits=defaults).answer(offer(bundle, config=LocalConfig()))
    assert "12, this device accepts at least 32" in reason(few)
    for query in sentences(40):
        store.add(query)
        store.add(query.upper() + " ")
    attack = offer(bundle, config=one, clip_norm=1e30, compress=False)
    assert "steps: found 1" in reason(device(training_setup, store, limits=defaults).answer(attack))
    unclipped = offer(bundle, config=LocalConfig(), clip_norm=1e30)
    assert "clip_norm" in reason(device(training_setup, store, limits=defaults).answer(unclipped))
    usual = offer(bundle, config=LocalConfig())
    found = contribution(device(training_setup, store, limits=defaults).answer(usual))
    assert decode_update(found.update).header.weight == 40


def test_a_query_that_was_typed_again_and_again_counts_once(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    for number in range(60):
        store.add(QUERIES[0] + "?" * (number % 3), ("a", "b"), "b" if number == 7 else None)
    found = device(training_setup, store, limits=OfferLimits()).answer(
        offer(bundle, config=LocalConfig())
    )
    assert "12, this device accepts at least 32" in reason(found)
    kept = distinct(store.examples())
    assert [example.query.rstrip("?") for example in kept[:-1]] == QUERIES[1:]
    assert kept[-1].opened == "b"


def test_opened_results_count_only_where_enough_queries_have_one(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    secret = bytes(32)
    texts = sentences(40)
    ids = MatrixVectors(training_setup.encoder.encode(texts), [str(n) for n in range(40)])
    known = replace(training_setup, documents=ids)
    opened = LocalConfig(steps=4, batch_size=4, opened_loss_weight=1.0)

    def update(least: int) -> bytes:
        limits = replace(OfferLimits.none(), least_queries=least)
        memory = RoundMemory(secret=secret)
        answer = device(known, store, memory, limits=limits).answer(offer(bundle, config=opened))
        return contribution(answer).update

    assert update(1) == update(2)  # no query has one
    store.add(QUERIES[0], ("0", "1"), "1")
    assert update(1) != update(2)
    before = update(2)
    store.record_opened(QUERIES[0], "0")
    assert update(2) == before
    # One of a document that the index no longer has is not trained on, and counts for nothing.
    store.add(QUERIES[1], ("gone", "1"), "gone")
    assert update(1) != update(2) == update(3)


def test_two_offers_in_one_round_do_not_differ_by_one_step_alone(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    memory = RoundMemory()
    config = LocalConfig(steps=1, batch_size=4)
    first, again, other = (
        decode_update(
            contribution(
                device(training_setup, store, memory).answer(
                    offer(bundle, config=one, compress=False, clip_norm=2.0)
                )
            ).update
        )
        for one in (config, config, replace(config, anchor_weight=5.0 + 1e-9))
    )
    assert first.header.nonce == again.header.nonce == other.header.nonce
    apart = {name: value - other.change[name] for name, value in first.change.items()}
    assert norm_of({n: v - again.change[n] for n, v in first.change.items()}) == 0
    assert norm_of(apart) > 0.1 * norm_of(first.change)


def test_a_device_may_keep_its_figures_to_itself(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    quiet = Device(
        training_setup,
        store,
        RoundMemory(),
        policy=Policy.always(),
        readings=None,
        limits=OfferLimits.none(),
        figures=False,
    )
    assert contribution(quiet.answer(offer(bundle))).figures == {}


def test_the_policy_is_asked_before_and_during_the_training(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    resting = DeviceReading(idle=True, charging=True, unmetered=True, temperature_c=20.0)
    strict = Policy(min_examples=3)
    contribution(
        device(training_setup, store, policy=strict, reading=resting).answer(offer(bundle))
    )
    busy = DeviceReading(idle=False, charging=True, unmetered=True, temperature_c=20.0)
    found = device(training_setup, store, policy=strict, reading=busy).answer(offer(bundle))
    assert reason(found) == "the device is in use"
    hurried = Policy(**{**vars(Policy.always()), "max_seconds": 1e-9})
    found = device(training_setup, store, policy=hurried).answer(offer(bundle))
    assert "takes longer than" in reason(found)


def test_too_few_queries_are_a_reason_not_to_train(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    store.erase_all()
    assert "0 queries" in reason(device(training_setup, store).answer(offer(bundle)))


def test_a_training_that_drifts_is_stopped_and_nothing_is_sent(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    config = LocalConfig(steps=5, batch_size=4, learning_rate=0.5, limits=MonitorLimits(drift=0.01))
    found = device(training_setup, store).answer(offer(bundle, config=config))
    assert "drift" in reason(found)


def test_a_release_of_another_bundle_a_changed_or_an_unsigned_one_is_refused(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    good = offer(bundle)
    changed = bytearray(good.release)
    changed[-1] ^= 1
    found = device(training_setup, store).answer(offer(bundle, release=bytes(changed)))
    assert "it was changed" in reason(found)
    signed_only = TrainingSetup(
        training_setup.encoder, training_setup.step, training_setup.documents, PUBLIC
    )
    assert "not signed" in reason(device(signed_only, store).answer(good))
    signed = pack_adapter(
        parse_adapter(good.release).tensors,
        manifest=bundle.manifest,
        version="1",
        signing_key=KEY,
    )
    contribution(device(signed_only, store).answer(offer(bundle, release=signed)))


def test_an_offer_of_other_tensors_is_declined(
    bundle: Bundle, training_setup: TrainingSetup, store: QueryStore
) -> None:
    tensors = {"adapter.layers.0.query.down": np.zeros((2, 3), np.float32)}
    release = pack_adapter(tensors, manifest=bundle.manifest, version="1")
    assert "adapter" in reason(device(training_setup, store).answer(offer(bundle, release=release)))
