"""Counts how often each augmenter left a query unchanged during training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pocketquery.client.views.views import View

__all__ = ["Tally", "alarming"]

_LARGEST_SHARE = 0.2


def alarming(rates: Mapping[str, float]) -> list[str]:
    """Augmenters that left more than a fifth unchanged, but ``dropout_view``, whose purpose it is.

    Args:
        rates: identity rates by augmenter, see :meth:`Tally.identity_rates`.
    """
    return [name for name in rates if name != "dropout_view" and rates[name] > _LARGEST_SHARE]


@dataclass
class Tally:
    """How often each augmenter left a query as it was. Views equal to the query teach nothing."""

    drawn: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)

    def add(self, views: Iterable[View]) -> None:
        """Count ``views``."""
        for view in views:
            self.drawn[view.made_by] += 1
            self.unchanged[view.made_by] += not view.changed

    def identity_rates(self) -> dict[str, float]:
        """Share unchanged by augmenter; 1 for ``dropout_view``, whose purpose it is."""
        return {name: self.unchanged[name] / self.drawn[name] for name in sorted(self.drawn)}

    def alarms(self) -> list[str]:
        """See :func:`alarming`."""
        return alarming(self.identity_rates())
