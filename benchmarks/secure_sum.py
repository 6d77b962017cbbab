"""What a private round costs: a device's bytes and processor time, and the server's.

    python benchmarks/secure_sum.py --bundle demo/bundle

Bytes are those of the real messages of all five stages as Flower serialises them, of one device
(client/private/participant.py, with its file and ledger) in cohorts of 20 to 10,000: its neighbours
deal real boxes, hold and confirm; the others are bits of two bitmaps. Each has 84 neighbours, in a
group of 10,000 it has 64. From 100 devices on they add noise (z = 2.4). A device's time is the
processor's over the five stages, without the training, which stands beside it: one local training
of the bundle with the default settings. The server's is that of a whole group of 1,000 with 84
neighbours each, of whom 5 % are gone after they dealt (server/private/coordinator.py and
unmasking.py). Where sdk/js is built, the same device's round in Node stands below.

Beside it, in the same run: a plain round, and Flower's SecAgg+ (1.41: flwr.client.mod's four steps
on the device; on the server combine_shares and pseudo_rand_gen for some devices, scaled).

Must reach, for the reference student's full adapter (36,864 values): at most 100 KB each way in
every cohort, on the device at most 150 ms and 5 % of its training, on the server at most 30 s.
The last line is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message
from private_rounds.costs import device_round, server_seconds
from private_rounds.flower_secagg import device_costs, server_milliseconds
from private_rounds.group import NEIGHBOURS, Group, a_change
from private_rounds.javascript import is_built, javascript_round
from training_step import QUERIES, build, unit_rows

from pocketquery.client.app import handle
from pocketquery.client.device import Contribution
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.client.records import offer_records
from pocketquery.client.store.store import Example
from pocketquery.client.training.step import LocalStep
from pocketquery.client.training.training import train_locally
from pocketquery.client.update import UpdateHeader, encode_update
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.encoder import Encoder
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_simulation.local_grid import LocalGrid

MOST_BYTES = 100_000
MOST_DEVICE_MS = 150.0
MOST_OF_TRAINING = 0.05
MOST_SERVER_SECONDS = 30.0
COHORTS = (20, 100, 1000, 10_000)
SERVER_COHORT = 1000
GONE = 0.05
DOCUMENTS = 1000


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--bundle", help="one with a training step (default: a student of 3x384 is made)"
    )
    parser.add_argument("--cohorts", type=int, nargs="+", default=COHORTS)
    parser.add_argument("--server-cohort", type=int, default=SERVER_COHORT)
    parser.add_argument("--repeat", type=int, default=5, help="timed rounds of the device")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.bundle) if options.bundle else made_bundle(Path(folder))
        offer, size = first_offer(Bundle.open(path))
        training = training_seconds(Bundle.open(path))
        plain = plain_round(offer, size)
        k, t = NEIGHBOURS, 3 * NEIGHBOURS // 5 + 1
        flower = device_costs(a_change(size), k, t)
        flower_server = server_milliseconds(size, k, t, GONE) * options.server_cohort / 1e3
        print(f"{size:,} values; local training {training:.2f} s; milliseconds of processor time")
        print(f"{'cohort':>18} {'down':>8} {'up':>8} {'device':>9}")
        row("plain", plain)
        cohorts = {}
        for cohort in options.cohorts:
            group = Group.of(cohort, offer, size)
            cohorts[cohort] = device_round(group, offer, Path(folder), options.repeat)
            row(f"private, {cohort:,}", cohorts[cohort])
            if is_built():
                found = javascript_round(group, offer, Path(folder), options.repeat)
                cohorts[cohort] |= {f"node_{name}": value for name, value in found.items()}
                print(f"{'in Node':>18} {found['device_ms']:27.1f}, first {found['first_ms']:.1f}")
        row("Flower's SecAgg+", flower)
    server = server_seconds(Group.of(options.server_cohort, offer, size), GONE)
    print(
        f"server, {options.server_cohort:,} x {NEIGHBOURS}, {GONE:.0%} gone: {server:.1f} s; "
        f"Flower's SecAgg+ {flower_server:.1f} s (scaled)"
    )
    figures = {
        "values": size,
        "down_bytes": max(one["down"] for one in cohorts.values()),
        "up_bytes": max(one["up"] for one in cohorts.values()),
        "device_ms": round(max(one["device_ms"] for one in cohorts.values()), 2),
        "training_share": round(
            max(one["device_ms"] for one in cohorts.values()) / training / 1e3, 5
        ),
        "server_seconds": round(server, 2),
        "up_over_plain": round(max(one["up"] for one in cohorts.values()) / plain["up"], 3),
        "flower_up_bytes": flower["up"],
        "flower_device_ms": round(flower["device_ms"], 1),
        "flower_server_seconds": round(flower_server, 1),
        "training_seconds": round(training, 3),
        "cohorts": {str(n): {k: round(v, 2) for k, v in one.items()} for n, one in cohorts.items()},
    }
    figures["missed"] = missed(figures)
    print(json.dumps(figures))
    return 1 if figures["missed"] else 0


def missed(figures: dict[str, Any]) -> list[str]:
    limits = {
        "down_bytes": MOST_BYTES,
        "up_bytes": MOST_BYTES,
        "device_ms": MOST_DEVICE_MS,
        "training_share": MOST_OF_TRAINING,
        "server_seconds": MOST_SERVER_SECONDS,
    }
    return [name for name, limit in limits.items() if not 0 < float(figures[name]) <= limit]


def row(name: str, costs: dict[str, float]) -> None:
    print(f"{name:>18} {costs['down']:8,.0f} {costs['up']:8,.0f} {costs['device_ms']:9.1f}")


def made_bundle(folder: Path) -> Path:
    print("making a student of 3x384 with a training step", file=sys.stderr)
    build("3x384", folder)
    return folder / "bundle"


def first_offer(bundle: Bundle) -> tuple[Offer, int]:
    """What devices are offered in the first round, and how many values they train."""
    state = FederationState.of_bundle(bundle)
    release = pack_adapter(state.adapter, manifest=bundle.manifest, version=state.version)
    size = sum(value.size for value in state.adapter.values())
    return Offer(round=0, release=release, clip_norm=1.0), size


def training_seconds(bundle: Bundle) -> float:
    """Processor time of one local training with the default settings, on random documents."""
    encoder, step = Encoder.of_bundle(bundle), LocalStep.open(bundle)
    documents = unit_rows(np.random.default_rng(0), DOCUMENTS, encoder.dimension)
    examples = [
        Example(f"{query} {number}", ()) for number in range(LocalConfig.steps) for query in QUERIES
    ]
    start = time.process_time()
    result = train_locally(
        encoder,
        step,
        examples,
        documents,
        adapter=encoder.adapter,
        config=LocalConfig(),
        seed=0,
    )
    assert result.steps == LocalConfig.steps, result.stopped
    return time.process_time() - start


def plain_round(offer: Offer, size: int) -> dict[str, float]:
    """Bytes of a plain round, and the time that its update takes after the training."""
    change = {"adapter": a_change(size)}
    seconds = 0.0

    class Uploader:
        def answer(self, offer: Offer) -> Contribution:
            nonlocal seconds
            header = UpdateHeader("space", "0" * 64, "1", offer.round, "0" * 32, 100.0)
            start = time.process_time()
            update, _ = encode_update(change, header=header, clip_norm=offer.clip_norm)
            seconds = time.process_time() - start
            return Contribution(update, {"loss": 0.1, "drift": 0.01, "effective_rank": 12.3})

    device = Uploader()
    grid = LocalGrid({0: lambda message: handle(message, device)})
    grid.send_and_receive([Message(offer_records(offer), 0, "train", group_id="0")])
    return {"down": grid.traffic.down, "up": grid.traffic.up, "device_ms": seconds * 1e3}


if __name__ == "__main__":
    sys.exit(main())
