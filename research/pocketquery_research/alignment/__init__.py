"""A light query encoder from elsewhere, brought into the space of a frozen document encoder."""

from pocketquery_research.alignment.alignment import (
    ALIGNMENT_LOSSES,
    AlignmentConfig,
    align,
    measure_margin,
)
from pocketquery_research.alignment.inputs import AlignmentData, alignment_data
from pocketquery_research.alignment.query_towers import (
    EncoderTower,
    WordAverage,
    with_alignment_head,
)

__all__ = [
    "align",
    "AlignmentConfig",
    "ALIGNMENT_LOSSES",
    "AlignmentData",
    "alignment_data",
    "measure_margin",
    "EncoderTower",
    "WordAverage",
    "with_alignment_head",
]
