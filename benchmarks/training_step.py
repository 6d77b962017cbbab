"""One step of local training: the device's ONNX graph against the same step in eager torch.

    python benchmarks/training_step.py

Students of 3x384 and 2x128 (cut from the demo's teacher or random: time and memory do not depend
on it), adapters of rank 8, a batch of 16 queries as people ask them and the same mistyped, 100
prototypes each, one thread. Ours is ``client.step.LocalStep`` on a bundle; theirs is the exporter's
reference step (the student's own modules with their fastest attention, autograd, and AdamW of
torch.optim) with the same weights. Each runs in a process of its own, and they take turns step by
step; after the last their losses must agree. Time is the CPU's, user and system, median of the
steps: with one thread that is the wall clock's on a machine with nothing else to do. Memory is the
operating system's: ours counts the whole life of the process; theirs only the steps, without what
loading took for a moment.

Must reach, in both shapes: time at most torch's, peak memory at most 0.7 of torch's, and at
most 60 MB in our process after everything is imported. Needs the extras export and demo, and Linux.
The last line is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

# The contestants' processes run this file too: here may stand only what both import anyway.
import numpy as np

MOST_TIME = 1.0
MOST_MEMORY = 0.7
MOST_AFTER_IMPORT_MB = 60
SHAPES = ("3x384", "2x128")
PROTOTYPES = 100
QUERIES = [  # a batch as devices have it
    "how do plants make sugar",
    "who wrote the origin of species",
    "capital of australia",
    "what causes the northern lights?",
    "symptoms of vitamin d deficiency",
    "when was the first steam engine built",
    "best way to remove red wine stains from a carpet",
    "difference between tcp and udp",
    "how many bones does a newborn baby have",
    "why is the sky blue",
    "population of são paulo in 1950",
    "treaty that ended the thirty years' war",
    "average rainfall in the amazon basin",
    "what does a semipermeable membrane do",
    "python read a file line by line",
    "which enzyme breaks down starch in the mouth?",
]
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
SCALARS = {
    "temperature": 0.05,
    "anchor_weight": 0.5,
    "opened_loss_weight": 0.0,
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-8,
    "ema_rate": 0.99,
}

Batch = dict[str, Any]


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each contestant")
    parser.add_argument("--contestant", choices=["ours", "torch"], help="for itself")
    parser.add_argument("--folder", help="for itself")
    options = parser.parse_args()
    if options.contestant:
        serve(options.contestant, Path(options.folder))
        return 0
    figures: dict[str, float] = {}
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            build(shape, Path(folder))
            found = compare(Path(folder), options.steps)
        report(shape, found)
        figures |= {f"{name}_{shape}": value for name, value in found.items()}
    reached = all(
        figures[f"time_ratio_{shape}"] <= MOST_TIME
        and figures[f"memory_ratio_{shape}"] <= MOST_MEMORY
        and figures[f"after_import_mb_{shape}"] <= MOST_AFTER_IMPORT_MB
        for shape in SHAPES
    )
    print(
        f"expected time_ratio <= {MOST_TIME}, memory_ratio <= {MOST_MEMORY}, "
        f"after_import_mb <= {MOST_AFTER_IMPORT_MB}"
    )
    print(json.dumps({**figures, "reached": reached}))
    return 0 if reached else 1


def report(shape: str, found: dict[str, float]) -> None:
    """Print one shape's figures for a person."""
    print(
        f"{shape}  ours {found['ours_ms']:7.1f} ms, peak {found['ours_peak_mb']:4.0f} MB, "
        f"after import {found['after_import_mb']:3.0f} MB"
    )
    print(f"{'':5}  torch {found['torch_ms']:6.1f} ms, peak {found['torch_peak_mb']:4.0f} MB")


def build(shape: str, folder: Path) -> None:
    """A student of ``shape`` in ``folder/student`` and its bundle in ``folder/bundle``."""
    from pocketquery.distill import StudentShape, build_student
    from pocketquery.export import ExportOptions, export_bundle
    from pocketquery.export.settings import TrainingOptions
    from pocketquery.server.modeling import SentenceEncoder

    teacher = SentenceEncoder.load("demo")
    student = build_student(teacher, StudentShape.parse(shape), max_length=64, seed=0)
    student.save(folder / "student")
    write_batch(student, folder / "batch.npz")
    export_bundle(
        student,
        folder / "bundle",
        calibration_texts=["how do plants make sugar", "who wrote the opera aida"],
        options=ExportOptions(training=TrainingOptions()),
        name=shape,
        license="Apache-2.0",
    )


def compare(folder: Path, steps: int) -> dict[str, float]:
    """Let the two take turns; medians, peaks, and ratios of ours to torch."""
    contestants = {name: start(name, folder) for name in ("ours", "torch")}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    losses: dict[str, float] = {}
    for turn in range(steps + 2):  # the first two warm up: memory arenas, thread pools
        for name in sorted(contestants, reverse=bool(turn % 2)):
            answer = ask(contestants[name], "step")
            losses[name] = answer["loss"]
            if turn >= 2:
                seconds[name].append(answer["seconds"])
    if not np.isclose(losses["ours"], losses["torch"], rtol=1e-3):
        sys.exit(f"the contestants do not train alike: their last losses are {losses}")
    memory = {name: ask(process, "end") for name, process in contestants.items()}
    for process in contestants.values():
        process.wait()
    ms = {name: statistics.median(values) * 1e3 for name, values in seconds.items()}
    peak = {name: memory[name]["peak"] for name in contestants}
    return {
        "time_ratio": round(ms["ours"] / ms["torch"], 4),
        "memory_ratio": round(peak["ours"] / peak["torch"], 4),
        "after_import_mb": round(memory["ours"]["after_import"], 1),
        "ours_ms": round(ms["ours"], 2),
        "torch_ms": round(ms["torch"], 2),
        "ours_peak_mb": round(peak["ours"], 1),
        "torch_peak_mb": round(peak["torch"], 1),
    }


def start(name: str, folder: Path) -> subprocess.Popen[str]:
    """A contestant's process, loaded and ready."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--contestant", name, "--folder", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    )
    ask(process, "ready")
    return process


def ask(process: subprocess.Popen[str], request: str) -> dict[str, float]:
    """Send one line, read one JSON object."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        sys.exit(f"a contestant failed: exit {process.wait()}")
    answer: dict[str, float] = json.loads(line)
    return answer


def serve(name: str, folder: Path, lines: IO[str] = sys.stdin) -> None:
    """A contestant: one step a line until "end"."""
    step, after_import = ours(folder) if name == "ours" else torch_twin(folder)
    for request in lines:
        answer: dict[str, float] = {}
        if request.strip() == "step":
            start = time.process_time()
            loss = step()
            answer = {"seconds": time.process_time() - start, "loss": loss}
        elif request.strip() == "end":
            answer = {"after_import": after_import, "peak": memory("VmHWM")}
        print(json.dumps(answer), flush=True)
        if request.strip() == "end":
            return


def ours(folder: Path) -> tuple[Callable[[], float], float]:
    """The step as a device runs it, and this process's memory after everything is imported."""
    import onnxruntime  # noqa: F401 - the session's package, otherwise imported when it is made

    from pocketquery.client.training.step import Hyperparameters, LocalStep, StepBatch
    from pocketquery.client.training.training import train_locally  # noqa: F401 - what a device imports
    from pocketquery.sdk.bundle.bundle import Bundle
    from pocketquery.sdk.bundle.safetensors import parse

    after_import = memory("VmRSS")
    bundle = Bundle.open(folder / "bundle")
    local = LocalStep.open(bundle)
    state = local.initial_state(parse(bundle.read("adapter.safetensors")))
    batch = StepBatch(**read_batch(folder / "batch.npz"))
    hyper = Hyperparameters(**SCALARS)

    def step() -> float:
        nonlocal state
        state, losses, _ = local.run(batch, state, hyper)
        return losses.loss

    return step, after_import


def torch_twin(folder: Path) -> tuple[Callable[[], float], float]:
    """The reference step, and this process's memory after everything is imported."""
    import torch

    from pocketquery.export.training_step.function import StepShape
    from pocketquery.export.training_step.model import EncoderShape
    from pocketquery.export.training_step.reference import ReferenceStep
    from pocketquery.export.training_step.tensors import divide
    from pocketquery.sdk.bundle.bundle import Bundle
    from pocketquery.sdk.bundle.safetensors import parse
    from pocketquery.server.modeling import SentenceEncoder

    torch.set_num_threads(1)
    after_import = memory("VmRSS")
    bundle = Bundle.open(folder / "bundle")
    student = SentenceEncoder.load(folder / "student")
    adapter = parse(bundle.read("adapter.safetensors"))
    tensors = divide(student, adapter, "index_byol", "adapter")
    names = tuple(tensors.trained), tuple(tensors.target)
    shape = StepShape(EncoderShape.of(student), "index_byol", 2, *names)
    twin = ReferenceStep(student, shape, tensors)
    scalars = {name: np.array(value, np.float32) for name, value in SCALARS.items()}
    batch = read_batch(folder / "batch.npz") | scalars
    del student, tensors, adapter
    forget_the_peak()
    return lambda: float(twin.run(batch)["loss"]), after_import


def write_batch(student: Any, path: Path) -> None:
    """The queries as a step takes them, clean and mistyped, beside random documents."""
    from pocketquery.client.views.typing_noise import mistype

    rng = np.random.default_rng(0)
    noise = random.Random(0)
    online = student.tokenize([*QUERIES, *(mistype(query, 0.08, noise) for query in QUERIES)])
    target = student.tokenize(QUERIES)
    rows, dimension = len(QUERIES), student.dimension
    np.savez(
        path,
        online_ids=online["input_ids"],
        online_mask=online["attention_mask"],
        target_ids=target["input_ids"],
        target_mask=target["attention_mask"],
        anchor=unit_rows(rng, rows, dimension),
        prototypes=unit_rows(rng, rows, PROTOTYPES, dimension),
        shown=np.zeros((rows, 1, dimension), np.float32),
        shown_mask=np.ones((rows, 1), np.float32),
        opened=np.zeros(rows, np.int64),
        opened_weight=np.zeros(rows, np.float32),
    )


def read_batch(path: Path) -> Batch:
    """What :func:`write_batch` wrote."""
    with np.load(path) as arrays:
        return dict(arrays)


def unit_rows(rng: np.random.Generator, *shape: int) -> Any:
    """Random directions, float32."""
    rows = rng.normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def forget_the_peak() -> None:
    """Give back what loading needed for a moment, and let the peak begin anew (Linux)."""
    import ctypes
    import gc

    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def memory(field: str) -> float:
    """``VmRSS`` or its peak ``VmHWM`` of this process in MB (2**20 bytes)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
