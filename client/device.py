"""A device in a round: may it train, on what, and what does it send back?

It knows no transport: an offer comes in, an answer goes out. :mod:`pocketquery.client.app` carries
both with Flower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.figures import figures_of
from pocketquery.client.offer import Offer
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.policy import Guard, Policy, Readings
from pocketquery.client.round_memory import ClientState, RoundMemory
from pocketquery.client.store.store import Example
from pocketquery.client.store.stored_examples import distinct
from pocketquery.client.training.prototypes import PrototypeSource
from pocketquery.client.training.step import LocalStep
from pocketquery.client.training.training import LocalResult, train_locally
from pocketquery.client.trusted_releases import TrustedReleases
from pocketquery.client.update import UpdateHeader, bounded_weight, encode_update
from pocketquery.sdk.bundle.adapter import AdapterRelease
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import Manifest
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import PocketQueryError

__all__ = [
    "Answer",
    "Answering",
    "Contribution",
    "Declined",
    "Device",
    "TrainingSetup",
    "ExampleStore",
    "Training",
]

_NO_CONSENT = "the user has not consented, or has withdrawn the consent"
_ERASED = "the user erased queries since the training began"
_PRIVATE_ONLY = "this device takes part in private rounds alone, and a plain one was offered"


@dataclass(frozen=True)
class Contribution:
    """What a device sends.

    Attributes:
        update: see :mod:`pocketquery.client.update`.
        figures: how the training went: ``loss`` of its last step, ``drift`` and
            ``effective_rank``, computed of the user's queries, to four digits and bounded; empty
            where the device keeps them to itself.
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

    @property
    def epoch(self) -> str:
        """A name for what is kept; another one once any of it was erased."""

    def examples(self, limit: int | None = None) -> Sequence[Example]:
        """The queries kept, the newest ``limit`` of them."""

    def tidy(self) -> None:
        """Let what expired go, and what was made of it: the epoch is another then."""


@dataclass(frozen=True)
class TrainingSetup:
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
    ) -> TrainingSetup:
        """What ``bundle`` brings, and the documents.

        Raises:
            ArtifactNotFoundError: the bundle has no training step.
            CorruptArtifactError, UnsupportedVersionError: it is damaged or too new.
        """
        return cls(Encoder.of_bundle(bundle), LocalStep.open(bundle), documents, public_key)


@dataclass(frozen=True)
class Training:
    """A training for a round that came to its end; nothing of it was kept or sent yet.

    Attributes:
        epoch: of the store that was trained on.
        release: what it began from.
        round_key: names encoder, release and round.
        before: what the round before left.
        result: the change and how it came about.
    """

    epoch: str
    release: AdapterRelease
    round_key: str
    before: ClientState
    result: LocalResult

    @property
    def change(self) -> Mapping[str, NDArray[np.float32]]:
        """New minus given value of every tensor that ships."""
        return self.result.change


class Answering(Protocol):
    """What can take part: a :class:`Device`."""

    def answer(self, offer: Offer) -> Answer:
        """The answer to an offer."""


class Device:
    """A device that takes part in rounds.

    Args:
        training_setup: encoder, training step, documents.
        store: the user's queries.
        memory: what is kept between rounds.
        policy: when it may train.
        readings: what the device says of its battery, network and temperature; None: nothing.
        limits: the device's own limits on offers.
        figures: whether the server is told how the training went, see :class:`Contribution`.
        plain: whether it sends changes that the server can read; False: only private rounds
            (:mod:`pocketquery.client.private.participant`) train it.
        releases: which ones it trains from; by default those of the setup's key, from now on.
        trains: what trains, :func:`~pocketquery.client.training.training.train_locally`; who tries
            out rounds alone gives what was trained before.
    """

    def __init__(
        self,
        training_setup: TrainingSetup,
        store: ExampleStore,
        memory: RoundMemory,
        *,
        policy: Policy,
        readings: Readings | None,
        limits: OfferLimits | None = None,
        figures: bool = True,
        plain: bool = True,
        releases: TrustedReleases | None = None,
        trains: Callable[..., LocalResult] = train_locally,
    ) -> None:
        self._setup = training_setup
        self._store = store
        self._memory = memory
        self._policy = policy
        self._readings = readings
        self._limits = limits or OfferLimits()
        self._figures = figures
        self._plain = plain
        self._releases = releases or TrustedReleases(public_key=training_setup.public_key)
        self._trains = trains

    @property
    def manifest(self) -> Manifest:
        """Of its bundle."""
        return self._setup.encoder.manifest

    @property
    def releases(self) -> TrustedReleases:
        """Which ones it trusts."""
        return self._releases

    def answer(self, offer: Offer) -> Answer:
        """Take part in a round, or decline.

        Asked again in the same round, it gives the same nonce, so that it counts once; and to the
        same offer the same bytes. Another offer in the same round is trained on with other draws:
        what differs between the two is not one more step.

        Declines where there is no consent (and forgets what it kept), where the offer is beyond the
        device's own limits, or where the store holds too few distinct queries. Declines, too, where
        the policy says so now or during the training, where the monitors stop the training, or
        where the user erased queries meanwhile. Last, declines an offer for another encoder, one
        that was tampered with, one with settings out of range, and one of another release than that
        in force.
        """
        if not self._plain:
            return Declined(_PRIVATE_ONLY)
        try:
            return self._answer(offer)
        except PocketQueryError as error:
            return Declined(str(error))

    def train(self, offer: Offer) -> Training | Declined:
        """Train as ``offer`` says, where consent, limits and policy allow it: what plain and
        private rounds have in common. Nothing of it is kept: before anything leaves the device,
        :meth:`forgotten` must be asked.

        Raises:
            PocketQueryError: the offer is for another encoder, was tampered with, or holds settings
                out of range.
        """
        # 1. May it? A query counts once, however often it was searched for.
        if not self._consents():
            return Declined(_NO_CONSENT)
        self._store.tidy()
        epoch = self._store.epoch  # read first: what is erased from here on, changes it
        examples = distinct(self._store.examples())
        guard = Guard(self._policy, self._readings, examples=len(examples))
        if reason := guard():
            return Declined(reason)
        if reason := self._limits.refusal(offer.config, offer.clip_norm, len(examples)):
            return Declined(reason)
        # 2. From where?
        manifest = self._setup.encoder.manifest
        release = self._releases.release_for_training(
            offer.release, offer.lineage, manifest=manifest
        )
        round_key = f"{release.encoder_sha256} {release.version} {offer.round}"
        self._memory.attach(epoch)
        before = self._memory.recall(round_key).fitting(release.tensors)
        # 3. Train.
        result = self._trains(
            self._setup.encoder,
            self._setup.step,
            examples,
            self._setup.documents,
            adapter=release.tensors,
            config=offer.config,
            seed=self._memory.seed(f"{round_key} {offer.digest}"),
            may_continue=lambda: self._gone(epoch) or guard(),
            previous=before.adapter or None,
            least_opened=self._limits.least_queries,
        )
        if result.stopped:
            return Declined(self.forgotten(epoch) or result.stopped)
        return Training(epoch, release, round_key, before, result)

    def forgotten(self, epoch: str) -> str | None:
        """Why what was read from the store in this epoch may not be used any more, or None; where
        there is a reason, what was kept between rounds is forgotten, too.
        """
        reason = self._gone(epoch)
        if reason is not None:
            self._memory.erase()
        return reason

    def _answer(self, offer: Offer) -> Answer:
        training = self.train(offer)
        if isinstance(training, Declined):
            return training
        # 4. Keep what the next round needs, and send, where the user has not erased it meanwhile.
        contribution = self._contribution(offer, training)
        if reason := self.forgotten(training.epoch):
            return Declined(reason)
        return contribution

    def _contribution(self, offer: Offer, training: Training) -> Contribution:
        release, result = training.release, training.result
        header = UpdateHeader(
            space_id=release.space_id,
            encoder_sha256=release.encoder_sha256,
            base_version=release.version,
            round=offer.round,
            nonce=self._memory.nonce(training.round_key),
            weight=bounded_weight(result.examples, offer.largest_weight),
        )
        update, residual = encode_update(
            result.change,
            header=header,
            clip_norm=offer.clip_norm,
            residual=training.before.residual or None,
            compress=offer.compress,
        )
        ended = {}
        if offer.config.client_init == "ema":
            ended = {n: release.tensors[n] + change for n, change in result.change.items()}
        self._memory.keep(training.round_key, ClientState(residual, ended))
        return Contribution(update, figures_of(result) if self._figures else {})

    def _consents(self) -> bool:
        if self._store.consent:
            return True
        self._memory.erase()
        return False

    def _gone(self, epoch: str) -> str | None:
        """Why what was read from the store in this epoch may not be used any more, or None."""
        if not self._store.consent:
            return _NO_CONSENT
        return None if self._store.epoch == epoch else _ERASED
