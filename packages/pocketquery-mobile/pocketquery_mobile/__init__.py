"""The encoder that takes text: its tokenizer as operators in the graph. ``pocketquery export
--with-tokenizer`` finds it in the entry-point group ``pocketquery.text_graphs``."""

from pocketquery_mobile.agreement import check_string_graph
from pocketquery_mobile.graph import StringGraph, build_string_graph, check_possible
from pocketquery_mobile.of_bundle import write_string_graph

__all__ = [
    "StringGraph",
    "build_string_graph",
    "check_possible",
    "check_string_graph",
    "write_string_graph",
]
