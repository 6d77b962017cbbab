"""Write a product-quantised vocabulary table as codes: its look-up in two small tables.

The graph looks up a row's codes (distill/pruning/product_codes.py finds them), and then their
centroids.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from pocketquery.distill.pruning.product_codes import CENTROIDS, product_codes
from pocketquery.export.graph_editing import GraphEditor
from pocketquery.sdk.arrays import Floats

__all__ = ["write_product_codes"]


def write_product_codes(editor: GraphEditor, config: Any) -> None:
    """Replace the look-up in the word table, where ``config`` says that it is product-quantised.

    The first ``vocabulary_fine`` rows, where there are any, have codes of their own, of half as
    many dimensions each.
    """
    size = getattr(config, "vocabulary_subvector", None)
    fine = getattr(config, "vocabulary_fine", 0)
    if size is None:
        return
    (node,) = (n for n in editor.nodes("Gather") if n.input[0].endswith("word_embeddings.weight"))
    table, ids = editor.array(node.input[0]), node.input[1]
    if not fine:
        editor.redirect(node.output[0], _rows(editor, "word", table, size, ids))
        return
    first = editor.store("word.fine", np.array(fine, np.int64))
    last = editor.store("word.last_fine", np.array(fine - 1, np.int64))
    zero = editor.store("word.zero", np.array(0, np.int64))
    axis = editor.store("word.axis", np.array([-1], np.int64))
    low = editor.add("Min", [ids, last], "word.fine_ids")
    high = editor.add("Max", [editor.add("Sub", [ids, first], "word.apart"), zero], "word.ids")
    is_fine = editor.add("Less", [ids, first], "word.are_fine")
    is_fine = editor.add("Unsqueeze", [is_fine, axis], "word.rows_are_fine")
    rows = [
        _rows(editor, "word.fine", table[:fine], size // 2, low),
        _rows(editor, "word", table[fine:], size, high),
    ]
    editor.redirect(node.output[0], editor.add("Where", [is_fine, *rows], "word.chosen"))


def _rows(editor: GraphEditor, name: str, table: Floats, size: int, ids: str) -> str:
    codes, centroids = product_codes(table, size)
    offsets = np.arange(codes.shape[1], dtype=np.int32) * CENTROIDS
    # (batch, length, places), then of those (batch, length, places, size), then rows again
    looked_up = editor.add("Gather", [editor.store(f"{name}.codes", codes), ids], f"{name}.found")
    looked_up = editor.add("Cast", [looked_up], f"{name}.numbers", to=onnx.TensorProto.INT32)
    places = [looked_up, editor.store(f"{name}.offsets", offsets)]
    looked_up = editor.add("Add", places, f"{name}.places")
    looked_up = editor.add(
        "Gather", [editor.store(f"{name}.centroids", centroids), looked_up], f"{name}.parts"
    )
    shape = editor.store(f"{name}.shape", np.array([0, 0, codes.shape[1] * size], np.int64))
    return editor.add("Reshape", [looked_up, shape], f"{name}.rows")
