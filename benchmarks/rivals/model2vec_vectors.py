"""Distil a model2vec model from a teacher and encode texts with it.

    python model2vec_vectors.py --teacher FOLDER --model FOLDER [--int8 DIMENSIONS] TEXTS.json ...

Run by the rivals' interpreter (see environment.py). Each TEXTS.json is a JSON list of strings; its
vectors are written beside it as TEXTS.npy, float32 (texts, dimension), rows of unit length. The
distilled model is kept in the folder --model and used again. model2vec's own defaults are used
(PCA to 256 dimensions, SIF weights), which its authors recommend; with --int8 it has so many
dimensions, of a byte each.
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
    parser.add_argument("--int8", type=int, metavar="DIMENSIONS")
    arguments = parser.parse_args()
    options = {"pca_dims": arguments.int8, "quantize_to": "int8"} if arguments.int8 else {}
    model = distilled(arguments.teacher, arguments.model, options)
    for path in arguments.texts:
        texts = json.loads(path.read_text(encoding="utf-8"))
        vectors = model.encode(texts, use_multiprocessing=False).astype(np.float32)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.save(path.with_suffix(".npy"), vectors / np.maximum(norms, 1e-12))


def distilled(teacher: str, folder: Path, options: dict[str, Any]) -> StaticModel:
    """The model kept in ``folder``, which is filled in one step if it is not there."""
    if not folder.is_dir():
        partial = folder.with_name(f"{folder.name}.partial")
        distill(model_name=teacher, device="cpu", **options).save_pretrained(partial)
        partial.rename(folder)
    return StaticModel.from_pretrained(folder)


if __name__ == "__main__":
    main()
