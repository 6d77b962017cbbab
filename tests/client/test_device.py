"""One device's life in a round: consent, policy, the offer, the training, the update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.client.device import Answer, Contribution, Declined, Device, Equipment, Offer
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.policy import Policy, Reading
from pocketquery.client.round_memory import Keepsake, RoundMemory
from pocketquery.client.store.store import QueryStore
from pocketquery.client.training.monitors import Limits
from pocketquery.client.transforms import norm_of
from pocketquery.client.update import decode_update
from pocketquery.sdk.bundle.adapter import pack_adapter, parse_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import public_key_of
from tests.export.training_bundle import tiny_training_bundle
from tests.tiny_models import sentences

CONFIG = LocalConfig(steps=2, batch_size=4)
QUERIES = sentences(12)
KEY = bytes(range(32))
PUBLIC = public_key_of(KEY)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return Bundle.open(tiny_training_bundle(tmp_path_factory.mktemp("device") / "bundle"))


@pytest.fixture(scope="module")
def equipment(bundle: Bundle) -> Equipment:
    documents = sdk.load(bundle.path).encode(sentences(40))
    return Equipment.of_bundle(bundle, documents)


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
    equipment: Equipment,
    store: QueryStore,
    memory: RoundMemory | None = None,
    policy: Policy | None = None,
    reading: Reading | None = None,
) -> Device:
    return Device(
        equipment,
        store,
        memory or RoundMemory(),
        policy=policy or Policy.always(),
        readings=reading,
    )


def contribution(answer: Answer) -> Contribution:
    assert isinstance(answer, Contribution), answer
    return answer


def reason(answer: Answer) -> str:
    assert isinstance(answer, Declined), answer
    return answer.reason


def test_the_update_is_for_this_round_within_the_clip_and_says_nothing_of_the_user(
    bundle: Bundle, equipment: Equipment, store: QueryStore
) -> None:
    found = contribution(device(equipment, store).answer(offer(bundle, 3, largest_weight=5.0)))
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
    bundle: Bundle, equipment: Equipment, store: QueryStore, tmp_path: Path
) -> None:
    path = tmp_path / "memory"
    first = contribution(device(equipment, store, RoundMemory(path)).answer(offer(bundle)))
    again = contribution(device(equipment, store, RoundMemory(path)).answer(offer(bundle)))
    later = contribution(device(equipment, store, RoundMemory(path)).answer(offer(bundle, 1)))
    assert first == again
    assert decode_update(first.update).header.nonce != decode_update(later.update).header.nonce


def test_what_rounding_cut_off_joins_the_next_update(
    bundle: Bundle, equipment: Equipment, store: QueryStore
) -> None:
    memory = RoundMemory()
    plain = decode_update(
        contribution(device(equipment, store).answer(offer(bundle, compress=False))).update
    )
    device(equipment, store, memory).answer(offer(bundle))
    kept = memory.recall("next").residual
    assert kept.keys() == plain.change.keys()
    assert 0 < norm_of(dict(kept)) < 0.05 * norm_of(plain.change)
    assert not memory.recall("next").adapter
    same = RoundMemory(secret=bytes(32)), RoundMemory(secret=bytes(32))
    same[0].keep("before", Keepsake(kept))
    both = []
    for one in same:
        sent = contribution(device(equipment, store, one).answer(offer(bundle, 1)))
        lost = one.recall("next").residual
        both.append({n: v + lost[n] for n, v in decode_update(sent.update).change.items()})
    for name, value in kept.items():
        np.testing.assert_allclose(both[0][name] - both[1][name], value, atol=1e-6)
    ema = LocalConfig(steps=1, batch_size=4, client_init="ema")
    device(equipment, store, memory).answer(offer(bundle, 1, config=ema))
    assert memory.recall("next").adapter.keys() == plain.change.keys()


def test_without_consent_it_declines_and_forgets(
    bundle: Bundle, equipment: Equipment, store: QueryStore, tmp_path: Path
) -> None:
    memory = RoundMemory(tmp_path / "memory")
    device(equipment, store, memory).answer(offer(bundle))
    store.withdraw_consent()
    assert "consent" in reason(device(equipment, store, memory).answer(offer(bundle, 1)))
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

    def examples(self, limit: int | None = None) -> object:
        return self._store.examples(limit)


@pytest.mark.parametrize("moment", range(2, 7))
def test_consent_withdrawn_during_the_training_stops_it_and_nothing_is_sent(
    bundle: Bundle, equipment: Equipment, store: QueryStore, moment: int, tmp_path: Path
) -> None:
    watched = Watched(store, moment, store.withdraw_consent)
    memory = RoundMemory(tmp_path / "memory")
    found = device(equipment, watched, memory).answer(offer(bundle))  # type: ignore[arg-type]
    assert "consent" in reason(found)
    assert not (tmp_path / "memory").exists()
    assert len(store) == 0


def test_the_policy_is_asked_before_and_during_the_training(
    bundle: Bundle, equipment: Equipment, store: QueryStore
) -> None:
    resting = Reading(idle=True, charging=True, unmetered=True, temperature_c=20.0)
    strict = Policy(min_examples=3)
    contribution(device(equipment, store, policy=strict, reading=resting).answer(offer(bundle)))
    busy = Reading(idle=False, charging=True, unmetered=True, temperature_c=20.0)
    found = device(equipment, store, policy=strict, reading=busy).answer(offer(bundle))
    assert reason(found) == "the device is in use"
    hurried = Policy(**{**vars(Policy.always()), "max_seconds": 1e-9})
    found = device(equipment, store, policy=hurried).answer(offer(bundle))
    assert "takes longer than" in reason(found)


def test_too_few_queries_are_a_reason_not_to_train(
    bundle: Bundle, equipment: Equipment, store: QueryStore
) -> None:
    store.erase_all()
    assert "0 queries" in reason(device(equipment, store).answer(offer(bundle)))


def test_a_training_that_drifts_is_stopped_and_nothing_is_sent(
    bundle: Bundle, equipment: Equipment, store: QueryStore
) -> None:
    config = LocalConfig(steps=5, batch_size=4, learning_rate=0.5, limits=Limits(drift=0.01))
    found = device(equipment, store).answer(offer(bundle, config=config))
    assert "drift" in reason(found)


def test_a_release_of_another_bundle_a_changed_or_an_unsigned_one_is_refused(
    bundle: Bundle, equipment: Equipment, store: QueryStore
) -> None:
    good = offer(bundle)
    changed = bytearray(good.release)
    changed[-1] ^= 1
    found = device(equipment, store).answer(offer(bundle, release=bytes(changed)))
    assert "it was changed" in reason(found)
    signed_only = Equipment(equipment.encoder, equipment.step, equipment.documents, PUBLIC)
    assert "not signed" in reason(device(signed_only, store).answer(good))
    signed = pack_adapter(
        parse_adapter(good.release).tensors,
        manifest=bundle.manifest,
        version="1",
        signing_key=KEY,
    )
    contribution(device(signed_only, store).answer(offer(bundle, release=signed)))


def test_an_offer_of_other_tensors_is_declined(
    bundle: Bundle, equipment: Equipment, store: QueryStore
) -> None:
    tensors = {"adapter.layers.0.query.down": np.zeros((2, 3), np.float32)}
    release = pack_adapter(tensors, manifest=bundle.manifest, version="1")
    assert "adapter" in reason(device(equipment, store).answer(offer(bundle, release=release)))
