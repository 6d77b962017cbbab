"""Rounds of a federation that signs: devices train from what is in force, and from nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pocketquery.client import trusted_releases
from pocketquery.client.device import Answer, Contribution, Declined
from pocketquery.client.offer import Offer
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.sdk.bundle import lineage
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery_simulation.files import SimulationFiles
from pocketquery_simulation.simulation import open_simulation
from tests.server.federation.small_federation import QUICK, Files, opened

KEY, NEW = bytes(range(32)), bytes(range(1, 33))


def reason(answer: Answer) -> str:
    assert isinstance(answer, Declined), answer
    return answer.reason


def test_an_unsigned_offer_is_what_it_was() -> None:
    """The digest that decides what a device draws is that of the release before."""
    offer = Offer(3, b"release")
    assert offer.digest == "b27a429b6a91370598c0f83fb9d1bc4a8273727e83f01be35fcd2e75218bf884"
    assert replace(offer, lineage=b"statements").digest == offer.digest


def test_devices_follow_and_a_server_that_replays_gets_nothing(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(federation, tmp_path, **{"signing-key": KEY, "clients-per-round": 12}) as parts:
        registry, device = parts.publisher.registry, parts.devices.device
        old, old_word = registry.read(), registry.lineage()
        first, second = parts.run(rounds=2)
        assert (first.outcome, second.outcome) == ("release 2", "release 3")
        assert (first.declined, second.declined) == (0, 0)
        assert len(registry.lineage()) < 800  # bytes that an offer of a signed round has more
        new, word, local = registry.read(), registry.lineage(), parts.options.local
        offer = Offer(2, new, local, lineage=word)
        # 1. A replay, with or without the statement of its time; a file of another's making.
        assert "release 1 with SHA-256" in reason(device(0).answer(replace(offer, release=old)))
        replayed = replace(offer, release=old, lineage=old_word)
        assert "an old answer was replayed" in reason(device(0).answer(replayed))
        # 2. A rollback that somebody made on the server, without the key.
        registry.rollback("2", signing_key=KEY)
        back = registry.lineage().replace(b'"rollback_from":"3"', b'"rollback_from":"9"')
        forged = replace(offer, release=registry.read(), lineage=back)
        assert "whose signature is not right" in reason(device(0).answer(forged))
        # 3. The registry's own rollback is taken, and rounds go on from there.
        assert parts.run(rounds=3)[-1].outcome == "release 4"
        # 4. The key is replaced; the server signs with the new one.
        registry.rotate_key(KEY, NEW)
        parts.publisher._signing_key = NEW
        assert parts.run(rounds=4)[-1].outcome == "release 5"
        now = Offer(9, registry.read(), local, lineage=registry.lineage())
        assert isinstance(device(0).answer(now), Contribution)
        # What stops the replay are two checks on the device.
        monkeypatch.setattr(lineage, "_check_not_replayed", lambda *given: None)
        monkeypatch.setattr(trusted_releases, "_check_target", lambda *given: None)
        assert isinstance(device(0).answer(replayed), Contribution)


def test_a_simulation_that_was_signed_goes_on_signed(federation: Files, tmp_path: Path) -> None:
    files = SimulationFiles(
        federation.bundle,
        federation.index,
        clients=federation.clients,
        gate_queries=federation.gate_queries,
        gate_qrels=federation.gate_qrels,
    )
    options, limits = FederationOptions.of(QUICK), OfferLimits.none()
    with open_simulation(
        files, tmp_path / "s", options, limits=limits, signing_key=KEY, share=0.5
    ) as simulation:
        assert simulation.publisher.lineage()
        assert simulation.devices.releases(3).public_key is not None
    for given, message in (
        ({}, "give that signing key"),
        ({"signing_key": KEY}, "options.roll_out differ"),
    ):
        with (
            pytest.raises(InvalidInputError, match=message),
            open_simulation(files, tmp_path / "s", options, limits=limits, **given),  # type: ignore[arg-type]
        ):
            pass
