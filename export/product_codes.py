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

__all__ = ["write_product_codes"]


def write_product_codes(editor: GraphEditor, config: Any) -> None:
    """Replace the look-up in the word table, where ``config`` says that it is product-quantised."""
    size = getattr(config, "vocabulary_subvector", None)
    if size is None:
        return
    (node,) = (n for n in editor.nodes("Gather") if n.input[0].endswith("word_embeddings.weight"))
    codes, centroids = product_codes(editor.array(node.input[0]), size)
    offsets = np.arange(codes.shape[1], dtype=np.int32) * CENTROIDS
    # (batch, length, places), then of those (batch, length, places, size), then rows again
    looked_up = editor.add(
        "Gather", [editor.store("word.codes", codes), node.input[1]], "word.found"
    )
    looked_up = editor.add("Cast", [looked_up], "word.numbers", to=onnx.TensorProto.INT32)
    looked_up = editor.add("Add", [looked_up, editor.store("word.offsets", offsets)], "word.places")
    looked_up = editor.add(
        "Gather", [editor.store("word.centroids", centroids), looked_up], "word.parts"
    )
    shape = editor.store("word.shape", np.array([0, 0, codes.shape[1] * size], np.int64))
    editor.redirect(node.output[0], editor.add("Reshape", [looked_up, shape], "word.rows"))
