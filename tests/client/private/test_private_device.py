"""Real devices in private rounds: training, consent and erasure as in plain rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.client.device import Contribution, Declined, Device, TrainingSetup
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.policy import Policy
from pocketquery.client.private.encoding import Encoding
from pocketquery.client.private.keys import AgreementKey, sign_certificate
from pocketquery.client.private.ledger import LEDGER, Ledger
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.participant import Participant
from pocketquery.client.private.state_file import StateFile
from pocketquery.client.round_memory import RoundMemory
from pocketquery.client.store.file import ROUNDS, SECURE
from pocketquery.client.store.store import QueryStore
from pocketquery.client.update import decode_update
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.server.private.coordinator import SecureSum
from pocketquery.server.private.unmasking import Unmasked, unmask
from tests.client.private.group import (
    AUTHORITY,
    FEDERATION,
    NOW,
    PUBLIC,
    SMALL,
    announce,
    binding_of,
    drawn,
)
from tests.synthetic_sentences import sentences
from tests.trainable_bundle import trainable_bundle

QUERIES = sentences(36)
SIZE, K, T = 3, 2, 2


@dataclass
class Real:
    """A device with a store, files and a key."""

    folder: Path
    store: QueryStore
    device: Device
    key: AgreementKey
    now: float = NOW

    @property
    def participant(self) -> Participant:
        """As a process opens it for one message."""
        certificate = sign_certificate(AUTHORITY, FEDERATION, self.key.public, int(NOW) + 1000)
        return Participant(
            self.device,
            self.key,
            certificate,
            PUBLIC,
            rules=SMALL,
            state=StateFile(self.folder / SECURE),
            ledger=Ledger(self.folder / LEDGER),
            clock=lambda: self.now,
        )

    def left(self) -> bytes:
        return b"".join(file.read_bytes() for file in self.folder.iterdir() if file.is_file())


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return Bundle.open(trainable_bundle(tmp_path_factory.mktemp("private") / "bundle"))


@pytest.fixture(scope="module")
def training_setup(bundle: Bundle) -> TrainingSetup:
    return TrainingSetup.of_bundle(bundle, sdk.load(bundle.path).encode(sentences(40)))


@pytest.fixture(scope="module")
def offer(bundle: Bundle) -> Offer:
    adapter = sdk.load(bundle.path).adapter
    release = pack_adapter(adapter, manifest=bundle.manifest, version="1")
    return Offer(5, release, LocalConfig(steps=2, batch_size=4), clip_norm=1.0)


@pytest.fixture
def devices(training_setup: TrainingSetup, tmp_path: Path) -> Iterator[list[Real]]:
    with ExitStack() as stack:
        found = []
        for number in range(SIZE):
            folder = tmp_path / str(number)
            folder.mkdir()
            store = stack.enter_context(QueryStore.open(folder / "queries.sqlite"))
            store.give_consent()
            for query in QUERIES[number::SIZE]:
                store.add(query)
            device = Device(
                training_setup,
                store,
                RoundMemory(folder / ROUNDS),
                policy=Policy.always(),
                readings=None,
                limits=OfferLimits.none(),
                plain=False,
            )
            found.append(Real(folder, store, device, AgreementKey(drawn("real", number))))
        yield found


def begin(devices: list[Real], offer: Offer) -> SecureSum:
    """All are ready, and dealt to one group."""
    certificates = []
    for one in devices:
        found = one.participant.answer(Stage.OFFER, announce(), offer)
        assert isinstance(found, bytes), found
        certificates.append(one.participant._certificate)
    state = StateFile(devices[0].folder / SECURE).load()
    assert state is not None
    encoding = Encoding(state.change.size, 16, 14, 0.0125, 1.0)
    binding = binding_of(devices, K, T, offer=offer, encoding=encoding)  # type: ignore[arg-type]
    return SecureSum.begin(binding, tuple(certificates))


def go_on(devices: list[Real], group: SecureSum) -> SecureSum:
    """Everybody who is asked answers; the last stage is left open."""
    for position in group.waiting:
        found = devices[position].participant.answer(group.stage, group.message(position))
        assert isinstance(found, bytes), found
        group, reason = group.receive(group.stage, position, found)
        assert reason is None
    if group.stage is Stage.UNMASK:
        return group
    after = group.close()
    assert isinstance(after, SecureSum)
    return after


def test_the_sum_is_that_of_plain_rounds(devices: list[Real], offer: Offer) -> None:
    group = begin(devices, offer)
    changes = []
    for one in devices:
        state = StateFile(one.folder / SECURE).load()
        assert state is not None
        changes.append(state.change.astype(np.float64))
        one.device._plain = True  # the same device, the same round: the same training
        answer = one.device.answer(replace(offer, compress=False))
        assert isinstance(answer, Contribution)
        plain = decode_update(answer.update).change
        flat = np.concatenate([plain[name].ravel() for name in sorted(plain)])
        assert flat.shape == state.change.shape
    for _ in range(4):
        group = go_on(devices, group)
    found = unmask(group)
    assert isinstance(found, Unmasked)
    step = group.binding.encoding.step
    wanted = sum(np.clip(change, -0.0125, 0.0125) for change in changes)
    assert np.abs(found.totals * step - wanted).max() < SIZE * step
    assert np.abs(wanted).max() > 10 * step


def withdraw(one: Real) -> None:
    one.store.withdraw_consent()


def erase(one: Real) -> None:
    one.store.erase_all()


def forget(one: Real) -> None:
    one.store.forget(QUERIES[0])


def destroy(one: Real) -> None:
    QueryStore.destroy(one.folder / "queries.sqlite")


@pytest.mark.parametrize("act", [withdraw, erase, forget, destroy])
@pytest.mark.parametrize("stage", [Stage.INVITE, Stage.COLLECT, Stage.UNMASK])
def test_erasing_takes_the_round_along_and_the_ledger_stays(
    act: Callable[[Real], None], stage: Stage, devices: list[Real], offer: Offer
) -> None:
    group = begin(devices, offer)
    while group.stage < stage:
        group = go_on(devices, group)
    one = devices[0]
    state = StateFile(one.folder / SECURE).load()
    assert state is not None
    ledger = one.folder / LEDGER
    before = ledger.read_bytes() if ledger.exists() else None
    assert (before is not None) == (stage > Stage.INVITE)
    act(one)
    assert not (one.folder / SECURE).exists()
    assert (ledger.read_bytes() if ledger.exists() else None) == before
    left = one.left()
    for secret in (state.secret, state.change.tobytes(), *state.replies.values()):
        assert not secret or secret not in left
    found = one.participant.answer(stage, group.message(0))
    assert isinstance(found, Declined)
    again = one.participant.answer(Stage.OFFER, announce(), offer)
    if act is forget and before is None:  # what is left may be trained on, in a round not begun
        assert isinstance(again, bytes)
    else:
        assert isinstance(again, Declined)


def test_a_state_of_erased_queries_is_forgotten(devices: list[Real], offer: Offer) -> None:
    group = begin(devices, offer)
    one = devices[0]
    state = (one.folder / SECURE).read_bytes()
    one.store.erase_all()
    one.store.add(QUERIES[1])
    (one.folder / SECURE).write_bytes(state)  # a process that was writing it meanwhile
    found = one.participant.answer(Stage.INVITE, group.message(0))
    assert isinstance(found, Declined)
    assert "erased queries" in found.reason
    assert not (one.folder / SECURE).exists()


def test_plain_and_untrained_rounds_are_declined(devices: list[Real], offer: Offer) -> None:
    one = devices[0]
    plain = one.device.answer(offer)
    assert isinstance(plain, Declined)
    assert "private rounds alone" in plain.reason
    changed = bytearray(offer.release)
    changed[-1] ^= 1
    for bad in (replace(offer, clip_norm=float("nan")), replace(offer, release=bytes(changed))):
        assert isinstance(one.participant.answer(Stage.OFFER, announce(), bad), Declined)
    one.store.withdraw_consent()
    found = one.participant.answer(Stage.OFFER, announce(), offer)
    assert isinstance(found, Declined)
    assert "consent" in found.reason
    assert not (one.folder / SECURE).exists()
