"""Distil a model2vec model from a teacher and encode texts with it.

    python model2vec_vectors.py --teacher FOLDER --model FOLDER [--int8 KEPT OF] TEXTS.json ...

Run by the rivals' interpreter (see environment.py). Each TEXTS.json is a JSON list of strings; its
vectors are written beside it as TEXTS.npy, float32 (texts, dimension), rows of unit length. The
distilled model is kept in the folder --model and used again. model2vec's own defaults are used
(PCA to 256 dimensions, SIF weights), which its authors recommend. With --int8 it is distilled to OF
dimensions and loaded with the first KEPT of them, of a byte each, as model2vec cuts a model of PCA.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # the teacher is a folder; nothing is to be asked for
if not sys.stderr.isatty():
    os.environ["TQDM_DISABLE"] = "1"

import numpy as np
from model2vec import StaticModel
from model2vec.distill import distill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--int8", type=int, nargs=2, metavar=("KEPT", "OF"))
    arguments = parser.parse_args()
    distilling: dict[str, Any] = {}
    loading: dict[str, Any] = {}
    if arguments.int8:
        kept, distilling["pca_dims"] = arguments.int8
        loading = {"dimensionality": kept, "quantize_to": "int8"}
    distilled(arguments.teacher, arguments.model, distilling)
    model = StaticModel.from_pretrained(arguments.model, **loading)
    for path in arguments.texts:
        texts = json.loads(path.read_text(encoding="utf-8"))
        vectors = model.encode(texts, use_multiprocessing=False).astype(np.float32)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.save(path.with_suffix(".npy"), vectors / np.maximum(norms, 1e-12))


def distilled(teacher: str, folder: Path, options: dict[str, Any]) -> None:
    """Fill ``folder`` with a model, in one step, if it is not there."""
    if not folder.is_dir():
        partial = folder.with_name(f"{folder.name}.partial")
        distill(model_name=teacher, device="cpu", **options).save_pretrained(partial)
        partial.rename(folder)


if __name__ == "__main__":
    main()
