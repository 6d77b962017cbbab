"""A small federation for the tests: a state, and replies to its rounds, honest and otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.update import UpdateHeader, encode_update
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState

SHAPES = {"adapter.head.0.down": (2, 6), "adapter.layers.0.query.up": (5, 2)}
SETTINGS = RoundSettings(
    clients_per_round=8,
    over_selection=1.0,
    least_replies=2,
    clip_norm=1.0,
    weighting="declared",
    aggregation="mean",
    shards=1,
)

Change = dict[str, NDArray[np.float32]]


def small_state() -> FederationState:
    """The state before a first round over two small tensors."""
    rng = np.random.default_rng(7)
    adapter = {name: rng.normal(0, 0.1, shape) for name, shape in SHAPES.items()}
    return FederationState(
        round=0,
        version="1",
        adapter={name: value.astype(np.float32) for name, value in adapter.items()},
        space_id="space-a",
        encoder_sha256="ab" * 32,
    )


def small_change(seed: int, scale: float = 0.1) -> Change:
    """A device's change."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, scale, shape).astype(np.float32) for name, shape in SHAPES.items()}


def header(number: int = 0, state: FederationState | None = None, **other: Any) -> UpdateHeader:
    """The header of the reply ``number`` to the round of ``state``."""
    state = state or small_state()
    made = UpdateHeader(
        space_id=state.space_id,
        encoder_sha256=state.encoder_sha256,
        base_version=state.version,
        round=state.round,
        nonce=f"{number * 0x9E3779B97F4A7C15 % 2**128:032x}",
        weight=float(1 + number % 5),
    )
    return replace(made, **other)


def reply(
    number: int = 0,
    state: FederationState | None = None,
    *,
    change: Change | None = None,
    clip_norm: float = 1.0,
    compress: bool = True,
    **other: Any,
) -> bytes:
    """The bytes an honest device sends, but for the header's fields named in ``other``."""
    data, _ = encode_update(
        small_change(number) if change is None else change,
        header=header(number, state, **other),
        clip_norm=clip_norm,
        compress=compress,
    )
    return data


def replies(count: int, state: FederationState | None = None) -> list[bytes]:
    """Honest replies of different devices."""
    return [reply(number, state) for number in range(count)]
