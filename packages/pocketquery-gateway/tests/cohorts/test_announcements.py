"""What gateways are told of releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flwr.app import Message, RecordDict

from pocketquery.server.federation.releases.publishing import RegistryPublisher
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.records import ANNOUNCE, read_part
from pocketquery_simulation.local_grid import LocalGrid
from tests.server.federation.small_federation import Files, Parts, opened

KEY = bytes(range(32))


def test_gateways_are_given_what_a_roll_out_leaves_to_the_other_devices(
    federation: Files, tmp_path: Path
) -> None:
    told: list[tuple[bytes, bytes]] = []

    def gateway(message: Message) -> Message:
        if message.metadata.message_type == ANNOUNCE:
            announced = read_part(message, AnnouncedRelease)
            told.append((announced.release, announced.left_release))
            return Message(RecordDict(), reply_to=message)
        asked = read_part(message, CohortOffer)
        told.append((asked.offer.release, asked.left_release))
        raise ConnectionResetError("its process is gone")

    def through(parts: Parts, rounds: int) -> None:
        one = replace(parts, options=replace(parts.options, gateways=1))
        one.run(grid=LocalGrid({1: gateway}), rounds=rounds)

    with opened(federation, tmp_path, **{"signing-key": KEY}) as parts:
        registry = parts.publisher.registry
        through(parts, 1)  # which has no reply
        publisher = RegistryPublisher(
            parts.bundle, tmp_path / "releases", None, signing_key=KEY, share=0.1
        )
        parts = replace(parts, publisher=publisher)
        parts.run(rounds=2)
        through(parts, 3)
        first, second = (registry.read(version) for version in "12")
        registry.roll_out("2", 1.0, signing_key=KEY)
        through(parts, 3)
    assert told == [(first, b"")] * 2 + [(second, first)] * 2 + [(second, b"")]
