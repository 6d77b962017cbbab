"""One device's life in a round: may it train, on what, and what does it send back?

It knows no transport: an offer comes in, an answer goes out. :mod:`pocketquery.client.app` carries
both with Flower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.policy import Guard, Policy, Readings
from pocketquery.client.round_memory import Keepsake, RoundMemory
from pocketquery.client.store.store import Example
from pocketquery.client.training.prototypes import PrototypeSource
from pocketquery.client.training.step import LocalStep
from pocketquery.client.training.training import LocalResult, train_locally
from pocketquery.client.update import UpdateHeader, bounded_weight, encode_update
from pocketquery.sdk.bundle.adapter import AdapterRelease, read_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import PocketQueryError

__all__ = ["Answer", "Contribution", "Declined", "Device", "Equipment", "ExampleStore", "Offer"]

_LARGEST_FIGURE = 1000.0
_NO_CONSENT = "the user has not consented, or has withdrawn the consent"


@dataclass(frozen=True)
class Offer:
    """What the server asks of a device.

    Attributes:
        round: its number, from 0.
        release: the bytes of the release to start from.
        config: how to train.
        clip_norm: largest L2 norm of the change.
        largest_weight: largest weight of the update.
        compress: 8 bits with error feedback, or float32.
    """

    round: int
    release: bytes
    config: LocalConfig = field(default_factory=LocalConfig)
    clip_norm: float = 2.0
    largest_weight: float = 256.0
    compress: bool = True


@dataclass(frozen=True)
class Contribution:
    """What a device sends.

    Attributes:
        update: see :mod:`pocketquery.client.update`.
        figures: how the training went: ``loss``, ``drift`` and ``effective_rank``, rounded and
            bounded; nothing that a query could be told from.
    """

    update: bytes
    figures: dict[str, float]


@dataclass(frozen=True)
class Declined:
    """The device sends nothing. Why is told to the user alone: it may say something of them."""

    reason: str


Answer = Contribution | Declined


class ExampleStore(Protocol):
    """What a device reads queries from: :class:`pocketquery.client.store.store.QueryStore`."""

    @property
    def consent(self) -> bool:
        """Whether the user agrees, now."""

    def examples(self, limit: int | None = None) -> Sequence[Example]:
        """The queries kept, the newest ``limit`` of them."""


@dataclass(frozen=True)
class Equipment:
    """What training needs beside queries; simulated devices share one.

    Attributes:
        encoder: the shipped one, with the bundle's own adapter.
        step: its training step.
        documents: the device's index, or its vectors.
        public_key: where given, releases must be signed by its private half.
    """

    encoder: Encoder
    step: LocalStep
    documents: PrototypeSource
    public_key: Key | None = None

    @classmethod
    def of_bundle(
        cls, bundle: Bundle, documents: PrototypeSource, public_key: Key | None = None
    ) -> Equipment:
        """What ``bundle`` brings, and the documents.

        Raises:
            ArtifactNotFoundError: the bundle has no training step.
            CorruptArtifactError, UnsupportedVersionError: it is damaged or too new.
        """
        return cls(Encoder.of_bundle(bundle), LocalStep.open(bundle), documents, public_key)


class Device:
    """A device that takes part in rounds.

    Args:
        equipment: encoder, training step, documents.
        store: the user's queries.
        memory: what is kept between rounds.
        policy: when it may train.
        readings: what the device says of its battery, network and temperature; None: nothing.
    """

    def __init__(
        self,
        equipment: Equipment,
        store: ExampleStore,
        memory: RoundMemory,
        *,
        policy: Policy,
        readings: Readings | None,
    ) -> None:
        self._equipment = equipment
        self._store = store
        self._memory = memory
        self._policy = policy
        self._readings = readings

    def answer(self, offer: Offer) -> Answer:
        """Take part in a round, or decline.

        Asked again in the same round, it gives the same nonce, so that it counts once.

        Declines where there is no consent (and forgets what it kept), where the policy says so now
        or during the training, where the monitors stop the training, and where the offer is for
        another encoder, was tampered with, or holds settings out of range.
        """
        try:
            return self._answer(offer)
        except PocketQueryError as error:
            return Declined(str(error))

    def _answer(self, offer: Offer) -> Answer:
        # 1. May it?
        if not self._consents():
            return Declined(_NO_CONSENT)
        examples = self._store.examples()
        guard = Guard(self._policy, self._readings, examples=len(examples))
        if reason := guard():
            return Declined(reason)
        # 2. From where?
        manifest = self._equipment.encoder.manifest
        key = self._equipment.public_key
        release = read_adapter(offer.release, manifest=manifest, public_key=key)
        occasion = f"{release.encoder_sha256} {release.version} {offer.round}"
        before = self._memory.recall(occasion).fitting(release.tensors)
        # 3. Train.
        result = train_locally(
            self._equipment.encoder,
            self._equipment.step,
            examples,
            self._equipment.documents,
            adapter=release.tensors,
            config=offer.config,
            seed=self._memory.seed(occasion),
            may_continue=lambda: guard() if self._store.consent else _NO_CONSENT,
            previous=before.adapter or None,
        )
        if not self._consents():
            return Declined(_NO_CONSENT)
        if result.stopped:
            return Declined(result.stopped)
        # 4. Send, and keep what the next round needs.
        return self._contribution(offer, release, occasion, before, result)

    def _contribution(
        self,
        offer: Offer,
        release: AdapterRelease,
        occasion: str,
        before: Keepsake,
        result: LocalResult,
    ) -> Contribution:
        header = UpdateHeader(
            space_id=release.space_id,
            encoder_sha256=release.encoder_sha256,
            base_version=release.version,
            round=offer.round,
            nonce=self._memory.nonce(occasion),
            weight=bounded_weight(result.examples, offer.largest_weight),
        )
        update, residual = encode_update(
            result.change,
            header=header,
            clip_norm=offer.clip_norm,
            residual=before.residual or None,
            compress=offer.compress,
        )
        ended = {}
        if offer.config.client_init == "ema":
            ended = {n: release.tensors[n] + change for n, change in result.change.items()}
        self._memory.keep(occasion, Keepsake(residual, ended))
        return Contribution(update, _figures(result))

    def _consents(self) -> bool:
        if self._store.consent:
            return True
        self._memory.erase()
        return False


def _figures(result: LocalResult) -> dict[str, float]:
    found = {
        "loss": result.losses[-1].loss,
        "drift": result.drift,
        "effective_rank": result.effective_rank,
    }
    return {
        name: round(min(max(value, -_LARGEST_FIGURE), _LARGEST_FIGURE), 4)
        for name, value in found.items()
        if value is not None and math.isfinite(value)
    }
