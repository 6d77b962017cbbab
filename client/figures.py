"""Three figures of a training that a device may report and a server reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a server reads figures and trains nothing
    from pocketquery.client.training.training import LocalResult

__all__ = ["FIGURES", "LARGEST_FIGURE", "figures_of", "figures_text", "parse_figures", "readable"]

FIGURES = ("loss", "drift", "effective_rank")
"""What a device says of its training; nothing else in a reply is looked at."""

LARGEST_FIGURE = 1000.0
"""Devices bound their figures to it, so a server drops what is larger."""

_LONGEST_TEXT = 200


def figures_of(result: LocalResult) -> dict[str, float]:
    """The figures of a training, to four digits and bounded."""
    figures = {
        "loss": result.losses[-1].loss,
        "drift": result.drift,
        "effective_rank": result.effective_rank,
    }
    return {
        name: round(min(max(value, -LARGEST_FIGURE), LARGEST_FIGURE), 4)
        for name, value in figures.items()
        if value is not None and math.isfinite(value)
    }


def readable(values: Mapping[str, Any]) -> dict[str, float]:
    """Those of :data:`FIGURES` in ``values``, which came from anywhere, that are numbers within
    :data:`LARGEST_FIGURE`. Nothing raises: a server does without them."""
    figures = {}
    for name in FIGURES:
        value = values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if abs(value) <= LARGEST_FIGURE:
            figures[name] = float(value)
    return figures


def figures_text(figures: Mapping[str, float]) -> str:
    """Figures as a header's value."""
    return json.dumps({name: figures[name] for name in FIGURES if name in figures})


def parse_figures(text: str | None) -> dict[str, float]:
    """The figures in a header's value, by the rules of :func:`readable`."""
    if not text or len(text) > _LONGEST_TEXT:
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return readable(values) if isinstance(values, dict) else {}
