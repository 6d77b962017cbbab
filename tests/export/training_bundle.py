"""A tiny bundle that carries a training step, exported anew; tests that only train take the stored
one of ``tests/trainable_bundle.py``.

Tracing a step takes some ten seconds, so a built bundle is kept in the system's temporary folder
under a name made of the sources it comes from, and copied from there.

``python -m tests.export.training_bundle FOLDER [OBJECTIVE [PART [VIEWS]]]`` writes one.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.settings import (
    ExportOptions,
    GraphOptions,
    Objective,
    TrainedPart,
    TrainingOptions,
)
from pocketquery.sdk.settings.declaration import from_json
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, sentences

__all__ = ["RANK_2", "tiny_student", "tiny_training_bundle"]

RANK_2 = GraphOptions(adapter_rank=2)

_ROOT = Path(__file__).parents[2]
_SOURCES = ("export/**/*.py", "sdk/**/*.py", "server/modeling/*.py", "tests/tiny_models.py")


def tiny_student() -> SentenceEncoder:
    """One layer of width 64 with a head to 48 dimensions; every call gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        head = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 48))
    return bert_teacher(layers=1, width=64, head=head)


def tiny_training_bundle(
    folder: Path | str,
    *,
    objective: Objective = "index_byol",
    part: TrainedPart = "adapter",
    views: int = 2,
    graph: GraphOptions = RANK_2,
) -> Path:
    """Make ``folder`` a verified bundle of :func:`tiny_student` with a training step; the folder.

    Adapters, of rank 2 by default, lie on query, value and both layers of the head; vectors have
    48 dimensions.
    """
    store = Path(tempfile.gettempdir()) / f"pocketquery-tests-{_fingerprint()}"
    store.mkdir(exist_ok=True)
    kept = store / f"{objective}-{part}-{views}-{graph.adapter_rank}-{graph.adapter_train}"
    with (store / f"{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            unfinished = store / f"{kept.name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            _build(unfinished, TrainingOptions(objective, part, views), graph)
            unfinished.rename(kept)
    return Path(shutil.copytree(kept, folder))


def _build(folder: Path, training: TrainingOptions, graph: GraphOptions) -> None:
    export_bundle(
        tiny_student(),
        folder,
        calibration_texts=sentences(40),
        options=ExportOptions(graph, parity_texts=4, training=training),
        name="tiny",
        license="MIT",
    )


def _fingerprint() -> str:
    digest = hashlib.sha256(torch.__version__.encode())
    for pattern in _SOURCES:
        for path in sorted(_ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    chosen = dict(zip(("objective", "part", "views"), sys.argv[2:], strict=False))
    training = from_json(TrainingOptions, chosen | {"views": int(chosen.get("views", 2))}, "argv")
    print(
        tiny_training_bundle(
            sys.argv[1],
            objective=training.objective,
            part=training.part,
            views=training.views,
        )
    )
