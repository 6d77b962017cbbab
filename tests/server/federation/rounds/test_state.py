from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, UnsupportedVersionError
from pocketquery.server.federation.rounds.nonces import NonceSet
from pocketquery.server.federation.rounds.round import apply
from pocketquery.server.federation.rounds.server_optimizers import FedAdam
from pocketquery.server.federation.rounds.state import FederationState
from tests.server.federation.replies import SETTINGS, header, replies, small_state

REFERENCE = Path(__file__).parents[4] / "benchmarks" / "reference" / "bundle"


def trained() -> FederationState:
    """A state with everything in it."""
    settings = dataclasses.replace(SETTINGS, optimizer=FedAdam())
    return apply(small_state(), replies(4), settings)[0].released("zwei")


def test_a_state_comes_back_from_its_bytes() -> None:
    for state in (small_state(), trained()):
        data = state.to_bytes()
        back = FederationState.from_bytes(data)
        assert back.to_bytes() == data
        assert (back.round, back.version, back.space_id) == (
            state.round,
            state.version,
            state.space_id,
        )
        assert back.seen == state.seen
        for name, value in state.optimizer.items():
            np.testing.assert_array_equal(back.optimizer[name], value)


def test_a_bundles_adapter_is_where_rounds_begin() -> None:
    bundle = Bundle.open(REFERENCE)
    state = FederationState.of_bundle(bundle)
    assert (state.round, state.version) == (0, bundle.manifest.encoder_version)
    assert state.space_id == bundle.manifest.space.id
    assert state.encoder_sha256 == bundle.manifest.files["encoder.onnx"].sha256
    assert {value.dtype.name for value in state.adapter.values()} == {"float32"}
    shipped = parse(bundle.read("adapter.safetensors"))
    for name, value in shipped.items():
        np.testing.assert_array_equal(state.adapter[name], value.astype(np.float32))


def test_a_rejected_candidate_leaves_the_old_adapter_and_the_new_number() -> None:
    before, candidate = small_state(), trained()
    after = before.rejected(candidate)
    assert (after.round, after.version, after.seen) == (1, "1", candidate.seen)
    assert after.adapter is before.adapter
    assert after.optimizer is before.optimizer
    assert candidate.without_moments().optimizer == {}


def test_other_files_are_refused() -> None:
    data = trained().to_bytes()
    tensors, metadata = parse(data), parse_metadata(data)
    with pytest.raises(UnsupportedVersionError, match="upgrade"):
        FederationState.from_bytes(serialize(tensors, metadata | {"format_version": "2"}))
    lacking = {name: value for name, value in metadata.items() if name != "version"}
    strange = tensors | {"other": np.zeros(1)}
    short = tensors | {"seen:0": np.zeros(3, np.uint8)}
    for wrong in (
        data[:-1],
        serialize(tensors, {}),
        serialize(tensors, lacking),
        serialize(tensors, metadata | {"round": "one"}),
        serialize(strange, metadata),
        serialize(short, metadata),
        serialize({}, metadata),
    ):
        with pytest.raises(CorruptArtifactError):
            FederationState.from_bytes(wrong)


@pytest.mark.parametrize(
    "value", [np.array([np.nan], np.float32), np.array([np.inf], np.float32), np.zeros(1)]
)
def test_tensors_no_round_could_start_from_are_refused(
    value: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> None:
    with pytest.raises(InvalidInputError, match="finite"):
        dataclasses.replace(small_state(), adapter={"w": value})


def test_the_nonces_are_in_the_bytes() -> None:
    one = small_state()
    nonces = NonceSet().add(header().nonce)
    two = dataclasses.replace(one, seen={3: nonces})
    assert one.to_bytes() != two.to_bytes()
    assert header().nonce in FederationState.from_bytes(two.to_bytes()).seen[3]
