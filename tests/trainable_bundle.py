"""A tiny bundle with a training step, as stored for the conformance vectors: no torch is needed.

One layer of width 64 and vectors of 48 dimensions; adapters of rank 2 on query, value and both
layers of the head. ``tests/export/training_bundle.py`` exports the same encoder anew.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.bundle import Bundle

__all__ = ["bundle_adapter", "trainable_bundle"]

_STORED = Path(__file__).parents[1] / "conformance" / "training" / "bundle"


def trainable_bundle(folder: Path | str) -> Path:
    """Make ``folder`` a copy of the bundle; the folder."""
    return Path(shutil.copytree(_STORED, folder))


def bundle_adapter(bundle: Bundle) -> dict[str, Floats]:
    """The adapter of ``bundle`` as float32; empty where it has none."""
    return {name: value.astype(np.float32) for name, value in bundle.adapter().items()}
