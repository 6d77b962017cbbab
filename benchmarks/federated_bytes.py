"""What a federated round costs a device's data plan: bytes down and up, as Flower serialises them.

    python benchmarks/federated_bytes.py --bundle benchmarks/reference/bundle

The messages are the real ones: the release and the round's settings down, the update (8 bits with
error feedback) and its figures up, through the in-process grid, which counts the protobuf bytes of
every message. Only the training is left out: how large an update is does not depend on what was
learnt. Beside it: the same update in float32, and the full float32 encoder, which a round without
adapters would send both ways.

Must reach: at most 100 KB each way, and at most 1 % of the full float32 encoder.
The last line is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from flwr.app import Message

from pocketquery.client.app import handle
from pocketquery.client.device import Contribution
from pocketquery.client.offer import Offer
from pocketquery.client.records import offer_records
from pocketquery.client.update import UpdateHeader, encode_update
from pocketquery.sdk.bundle.adapter import pack_adapter, read_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import Manifest
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_simulation.local_grid import LocalGrid, Traffic

MOST_BYTES = 100_000
MOST_OF_ENCODER = 0.01
CLIENTS, ROUNDS = 4, 3


class Uploader:
    """A device that has learnt something arbitrary."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def answer(self, offer: Offer) -> Contribution:
        release = read_adapter(offer.release, manifest=self._manifest)
        rng = np.random.default_rng(offer.round)
        change = {
            name: rng.standard_normal(value.shape).astype(np.float32)
            for name, value in release.tensors.items()
        }
        header = UpdateHeader(
            release.space_id,
            release.encoder_sha256,
            release.version,
            offer.round,
            rng.bytes(16).hex(),
            offer.largest_weight,
        )
        clip, compress = offer.clip_norm, offer.compress
        update, _ = encode_update(change, header=header, clip_norm=clip, compress=compress)
        return Contribution(update, {"loss": 0.1234, "drift": 0.0123, "effective_rank": 12.345})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", default="benchmarks/reference/bundle")
    bundle = Bundle.open(parser.parse_args().bundle)
    small, plain = (measure(bundle, compress=compress) for compress in (True, False))
    encoder = int(bundle.manifest.quality["bytes"]["float"])
    figures = {
        "bundle": bundle.manifest.name,
        "down_bytes": small.down // small.messages,
        "up_bytes": small.up // small.replies,
        "up_bytes_float32": plain.up // plain.replies,
        "full_float32_encoder_bytes": encoder,
        "down_share": round(small.down / small.messages / encoder, 6),
        "up_share": round(small.up / small.replies / encoder, 6),
    }
    print_table(figures)
    figures["missed"] = missed(figures)
    print(json.dumps(figures))
    return 1 if figures["missed"] else 0


def measure(bundle: Bundle, *, compress: bool) -> Traffic:
    """Bytes of some rounds with some devices."""
    state, manifest = FederationState.of_bundle(bundle), bundle.manifest
    release = pack_adapter(state.adapter, manifest=manifest, version=state.version)
    device = Uploader(manifest)
    grid = LocalGrid({node: lambda message: handle(message, device) for node in range(CLIENTS)})
    for number in range(ROUNDS):
        content = offer_records(Offer(round=number, release=release, compress=compress))
        grid.send_and_receive(
            Message(content, node, "train", group_id=str(number)) for node in grid.get_node_ids()
        )
    return grid.traffic


def missed(figures: dict[str, object]) -> list[str]:
    limits = {
        "down_bytes": MOST_BYTES,
        "up_bytes": MOST_BYTES,
        "down_share": MOST_OF_ENCODER,
        "up_share": MOST_OF_ENCODER,
    }
    return [name for name, limit in limits.items() if not 0 < float(str(figures[name])) <= limit]


def print_table(figures: dict[str, object]) -> None:
    print(f"a client and a round, {figures['bundle']}")
    for name, limit in (("down", MOST_BYTES), ("up", MOST_BYTES)):
        size, share = figures[f"{name}_bytes"], float(str(figures[f"{name}_share"]))
        print(
            f"  {name:<6}{size:>9,} bytes (at most {limit:,}), {share:.3%} of the float32 encoder"
        )
    print(f"  up, float32 {figures['up_bytes_float32']:>9,} bytes")
    print(f"  encoder     {figures['full_float32_encoder_bytes']:>9,} bytes\n")


if __name__ == "__main__":
    raise SystemExit(main())
