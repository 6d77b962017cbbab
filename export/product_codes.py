"""A vocabulary table that stands for codes, written as codes: its look-up in two small tables.

A student whose table was product-quantised (distill/pruning/product_quantization.py) is saved with
the whole table. Each place of it, so many dimensions, holds at most 256 different values, which are
found again here without loss: the graph looks up a row's codes, and then their centroids.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["PER_PLACE", "expand_codes", "product_codes", "write_product_codes"]

PER_PLACE = 256
"""Centroids of a place, as many as one byte tells apart."""

Codes = npt.NDArray[np.uint8]


def product_codes(table: Floats, size: int) -> tuple[Codes, Floats]:
    """The codes and centroids that ``table`` was made of.

    Args:
        table: float32 (rows, width).
        size: dimensions of a sub-vector.

    Returns:
        uint8 (rows, places) and float32 (places * 256, size): the values of a place in order,
        zeros behind them.

    Raises:
        InvalidInputError: a place with more than 256 different values.
    """
    places = table.shape[1] // size
    codes = np.empty((len(table), places), np.uint8)
    centroids = np.zeros((places, PER_PLACE, size), np.float32)
    for place in range(places):
        part = table[:, place * size : (place + 1) * size]
        values, numbers = np.unique(part, axis=0, return_inverse=True)
        if len(values) > PER_PLACE:
            raise InvalidInputError(
                f"the student's vocabulary table holds {len(values)} different values in "
                f"dimensions {place * size} to {(place + 1) * size - 1}; a product-quantised one "
                f"has at most {PER_PLACE}. It was trained after the distillation: train without "
                'it, or remove "vocabulary_subvector" from its config.json for a whole table'
            )
        codes[:, place] = numbers.reshape(-1)
        centroids[place, : len(values)] = values
    return codes, centroids.reshape(-1, size)


def expand_codes(codes: Codes, centroids: Floats) -> Floats:
    """The table, float32 (rows, width), that ``codes`` and ``centroids`` stand for."""
    places = codes.astype(np.int64) + np.arange(codes.shape[1]) * PER_PLACE
    rows: Floats = centroids[places].reshape(len(codes), -1)
    return rows


def write_product_codes(editor: GraphEditor, config: Any) -> None:
    """Replace the look-up in the word table, where ``config`` says that it is product-quantised."""
    size = getattr(config, "vocabulary_subvector", None)
    if size is None:
        return
    (node,) = (n for n in editor.nodes("Gather") if n.input[0].endswith("word_embeddings.weight"))
    codes, centroids = product_codes(editor.array(node.input[0]), size)
    offsets = np.arange(codes.shape[1], dtype=np.int32) * PER_PLACE
    # (batch, length, places), then of those (batch, length, places, size), then rows again
    found = editor.add("Gather", [editor.store("word.codes", codes), node.input[1]], "word.found")
    found = editor.add("Cast", [found], "word.numbers", to=onnx.TensorProto.INT32)
    found = editor.add("Add", [found, editor.store("word.offsets", offsets)], "word.places")
    found = editor.add("Gather", [editor.store("word.centroids", centroids), found], "word.parts")
    shape = editor.store("word.shape", np.array([0, 0, codes.shape[1] * size], np.int64))
    editor.redirect(node.output[0], editor.add("Reshape", [found, shape], "word.rows"))
