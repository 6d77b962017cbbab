"""The server's sum over a round's replies: how much memory, and how fast beside Flower's FedAvg.

    python benchmarks/aggregation.py

Replies have the shapes of the reference bundle's adapter, as devices send them (int8, a header),
and are made one at a time. Memory is the peak of a process of its own for each number of replies:
once through the rounds alone, once through the journal. Speed is measured in one process, in turns:
ours decodes, validates, clips and sums the bytes; Flower's FedAvg.aggregate_train (1.41) averages
the same changes as float32 arrays in messages that are ready made, and neither validates nor clips.

Must reach: memory for 10,000 replies at most 1.1 times that for 10, in both.
The last line is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pocketquery.client.update import UpdateHeader, decode_update, encode_update
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.round import apply
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState

MOST_MEMORY = 1.1
FEW = 10
FLOWER_MANY = 1000  # it holds them all: 10,000 would be gigabytes
BATCH = FEW  # replies that come together, alike for few and many
REFERENCE = Path(__file__).parent / "reference" / "bundle"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0"}


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bundle", default=str(REFERENCE))
    parser.add_argument("--updates", type=int, default=10_000, help="replies of the large round")
    parser.add_argument("--speed-updates", type=int, default=200, help="replies of a timed round")
    parser.add_argument("--repeat", type=int, default=9, help="timed rounds of each")
    parser.add_argument("--peak-of", choices=["rounds", "journal", "flower"], help="for itself")
    options = parser.parse_args()
    if options.peak_of:
        print(peak_of(options.peak_of, options.bundle, options.updates))
        return 0
    memory = {
        name: measure_memory(name, options.bundle, options.updates)
        for name in ("rounds", "journal")
    }
    flower = measure_memory("flower", options.bundle, FLOWER_MANY)
    print(f"Flower's FedAvg holds every reply: {flower:.2f} times, already for {FLOWER_MANY:,}")
    speed = measure_speed(options.bundle, options.speed_updates, options.repeat)
    reached = max(memory.values()) <= MOST_MEMORY
    print(f"expected memory_of_rounds and memory_of_journal <= {MOST_MEMORY}")
    figures = {f"memory_of_{name}": round(ratio, 4) for name, ratio in memory.items()}
    figures |= {name: round(value, 4) for name, value in speed.items()}
    print(json.dumps({**figures, "reached": reached}))
    return 0 if reached else 1


def measure_memory(name: str, bundle: str, many: int) -> float:
    """Peak memory for ``many`` replies over that for a few."""
    few, more = (peak_in_a_process(name, bundle, count) for count in (FEW, many))
    print(f"{name:8} {few / 2**20:7.1f} MB for {FEW} replies, {more / 2**20:7.1f} MB for {many:,}")
    return more / few


def peak_in_a_process(name: str, bundle: str, updates: int) -> int:
    """The peak memory in bytes of a process that aggregates ``updates`` replies."""
    arguments = ["--peak-of", name, "--bundle", bundle, "--updates", str(updates)]
    command = [sys.executable, str(Path(__file__).absolute()), *arguments]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return int(done.stdout.splitlines()[-1])


def peak_of(name: str, bundle: str, updates: int) -> int:
    """Aggregate in this process; its peak memory in bytes."""
    state = FederationState.of_bundle(Bundle.open(bundle))
    made = make_updates(state, updates)
    if name == "flower":
        flower_round(state, list(made))()
    elif name == "journal":
        through_journal(state, made, updates)
    else:
        _, report = apply(state, made, settings(updates))
        assert report.accepted == updates, report
    return peak()


def through_journal(state: FederationState, made: Iterator[bytes], updates: int) -> None:
    """A round in a journal, replies coming in batches."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal.open(Path(folder) / "rounds.sqlite") as journal,
    ):
        journal.begin(state, settings(updates), now=0.0)
        while batch := list(itertools.islice(made, BATCH)):
            journal.receive_all(batch, now=0.0)
        _, report = journal.close()
    assert report.accepted == updates, report


def settings(updates: int) -> RoundSettings:
    """A round that takes so many replies, for their weighted mean, as Flower's FedAvg does."""
    return RoundSettings(
        clients_per_round=updates,
        over_selection=1.0,
        weighting="declared",
        aggregation="mean",
        shards=1,
    )


def make_updates(state: FederationState, count: int) -> Iterator[bytes]:
    """Replies of as many devices, one at a time; their changes differ."""
    rng = np.random.default_rng(0)
    change = {
        name: rng.normal(0, 1e-3, value.shape).astype(np.float32)
        for name, value in state.adapter.items()
    }
    for number in range(count):
        rolled = {name: np.roll(value, number) for name, value in change.items()}
        header = UpdateHeader(
            space_id=state.space_id,
            encoder_sha256=state.encoder_sha256,
            base_version=state.version,
            round=state.round,
            nonce=rng.bytes(16).hex(),
            weight=float(1 + number % 50),
        )
        yield encode_update(rolled, header=header, clip_norm=1.0)[0]


def peak() -> int:
    """This process's peak memory in bytes: Linux's high-water mark, which exec resets."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except FileNotFoundError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def measure_speed(bundle: str, updates: int, repeat: int) -> dict[str, float]:
    """Updates a second of ours and of Flower's, and the median of their ratio over the turns."""
    state = FederationState.of_bundle(Bundle.open(bundle))
    made = list(make_updates(state, updates))
    values = sum(value.size for value in state.adapter.values())
    print(f"{updates} replies of {values:,} values, {len(made[0]):,} bytes each")
    flower = flower_round(state, made)
    check_same(state, made, flower)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(repeat):
        ours.append(updates / seconds(lambda: apply(state, made, settings(updates))))
        theirs.append(updates / seconds(flower))
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    rates = {"ours": statistics.median(ours), "flower": statistics.median(theirs)}
    for name, rate in rates.items():
        print(f"{name:8} {rate:7.0f} updates/s, {1e3 / rate:.3f} ms each")
    print(f"ours is {ratio:.2f} times as fast" if ratio >= 1 else f"ours is SLOWER: {ratio:.2f}")
    return {"speed_over_flower": ratio, "ours_ms": 1e3 / rates["ours"]}


def seconds(work: Callable[[], object]) -> float:
    """How long ``work`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def flower_round(state: FederationState, made: list[bytes]) -> Callable[[], dict[str, np.ndarray]]:
    """Flower's FedAvg over the same changes, in messages made beforehand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Flower's own dependencies say
        import flwr.supercore.task_identity as task
        from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
        from flwr.serverapp.strategy import FedAvg
    logging.getLogger("flwr").setLevel(logging.WARNING)
    task.TaskIdentity.task_id = task.TaskIdentity.run_id = task.TaskIdentity.node_id = 1
    messages = []
    for data in made:
        update = decode_update(data)
        arrays = ArrayRecord({name: Array(value) for name, value in update.change.items()})
        metrics = MetricRecord({"num-examples": update.header.weight})
        content = RecordDict({"arrays": arrays, "metrics": metrics})
        messages.append(Message(content, dst_node_id=1, message_type="train"))
    strategy = FedAvg()

    def aggregate() -> dict[str, np.ndarray]:
        arrays, _ = strategy.aggregate_train(state.round, messages)
        assert arrays is not None
        return {name: array.numpy() for name, array in arrays.items()}

    return aggregate


def check_same(
    state: FederationState, made: list[bytes], flower: Callable[[], dict[str, np.ndarray]]
) -> None:
    """Both must come to the same mean, or the race is none."""
    after, _ = apply(state, made, settings(len(made)))
    for name, mean in flower().items():
        np.testing.assert_allclose(after.adapter[name] - state.adapter[name], mean, atol=1e-6)


if __name__ == "__main__":
    sys.exit(main())
