"""Flower's SecAgg+ (flwr 1.41), the steps that cost time, without its workflow around them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common import ndarrays_to_parameters
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import encrypt, generate_shared_key
from flwr.common.secure_aggregation.secaggplus_constants import Key
from flwr.common.secure_aggregation.secaggplus_utils import (
    pseudo_rand_gen,
    share_keys_plaintext_concat,
)
from flwr.common.serde import message_to_proto
from flwr.supercore.primitives.asymmetric import (
    bytes_to_public_key,
    generate_key_pairs,
    public_key_to_bytes,
)

__all__ = ["device_costs", "server_milliseconds"]

# Of the package's one name is that of a module and of a function in it.
_STEPS: Any = import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")

_CLIP, _TARGET, _MODULUS = 0.0125, 1 << 22, 1 << 32  # the workflow's defaults, but for the clip


def device_costs(change: np.ndarray, neighbours: int, threshold: int) -> dict[str, float]:
    """Bytes (without the model that it is sent) and milliseconds of one device's four stages, all
    neighbours alive.

    Args:
        change: float32 (d,).
        neighbours: that it shares masks with.
        threshold: of the shares.
    """
    # 1. The neighbours' keys, and what each sends the device: made beforehand.
    private, public = {}, {}
    for node in range(1, neighbours + 1):
        pairs = [generate_key_pairs() for _ in range(2)]
        private[node] = [pair[0] for pair in pairs]
        public[node] = tuple(public_key_to_bytes(pair[1]) for pair in pairs)
    share = create_shares(bytes(32), 2, 2)[0]

    # 2. The device's steps.
    state = _STEPS.SecAggPlusState(nid=0)
    seconds, down, up = 0.0, 0, 0

    def step(work: Callable[..., dict[str, Any]], said: dict[str, Any], *more: Any) -> None:
        nonlocal seconds, down, up
        start = time.process_time()
        found = work(state, ConfigRecord(said), *more)
        seconds += time.process_time() - start
        down, up = down + _wire(said), up + _wire(found)

    step(
        _STEPS._setup,
        {
            Key.SAMPLE_NUMBER: neighbours + 1,
            Key.SHARE_NUMBER: neighbours + 1,
            Key.THRESHOLD: threshold,
            Key.CLIPPING_RANGE: _CLIP,
            Key.TARGET_RANGE: _TARGET,
            Key.MOD_RANGE: _MODULUS,
            Key.MAX_WEIGHT: 1000.0,
        },
    )
    keys = {str(node): list(both) for node, both in public.items()}
    step(_STEPS._share_keys, {"0": [state.pk1, state.pk2], **keys})
    own = bytes_to_public_key(state.pk2)
    boxes = [
        encrypt(
            generate_shared_key(both[1], own), share_keys_plaintext_concat(node, 0, share, share)
        )
        for node, both in private.items()
    ]
    parameters = ndarrays_to_parameters([change.astype(np.float64)])
    said = {Key.CIPHERTEXT_LIST: boxes, Key.SOURCE_LIST: list(private)}
    step(_STEPS._collect_masked_vectors, said, 100, parameters)
    alive = list(range(neighbours + 1))
    step(_STEPS._unmask, {Key.ACTIVE_NODE_ID_LIST: alive, Key.DEAD_NODE_ID_LIST: []})
    return {"down": down, "up": up, "device_ms": seconds * 1e3}


def server_milliseconds(size: int, neighbours: int, threshold: int, gone: float) -> float:
    """Of the server's work a device: a secret is restored; a survivor's mask is drawn again, that
    of one that is gone once for each neighbour. Measured on a few of both.
    """
    shares = create_shares(bytes(range(32)), threshold, neighbours + 1)
    start = time.process_time()
    for _ in range(3):
        combine_shares(shares[:threshold])
    joined = (time.process_time() - start) / 3
    start = time.process_time()
    for number in range(10):
        pseudo_rand_gen(bytes([number] * 32), _MODULUS, [(size,)])
    drawn = (time.process_time() - start) / 10
    return (joined + drawn * ((1 - gone) + gone * neighbours)) * 1e3


def _wire(configs: Mapping[str, Any]) -> int:
    content = RecordDict({"secagg": ConfigRecord(dict(configs))})
    message = Message(content, 0, "train", group_id="0")
    return len(message_to_proto(message).SerializeToString())
