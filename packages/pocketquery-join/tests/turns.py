"""A turn of a device that is open already."""

from __future__ import annotations

import contextlib

from pocketquery.client.device import Answering
from pocketquery_join.outcome import Outcome
from pocketquery_join.participation import Participation
from pocketquery_join.private_rounds import PrivateAnswering

__all__ = ["turn"]


def turn(
    one: Participation, device: Answering, participant: PrivateAnswering | None = None
) -> Outcome:
    """What one turn of ``device``, and of the same enrolled, comes to."""
    return one.take_part(lambda: contextlib.nullcontext((device, participant)), participant)
