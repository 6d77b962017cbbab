"""Looking at the geometry while a run goes on, and ending one that collapses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.evaluation.geometry import Geometry, measure_geometry
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Objective, tokenize
from pocketquery.server.pretraining.mixture import Part

__all__ = ["Watch", "diagnose"]

# They see different collapses, and between them all; the other alarms are to be looked at.
_FATAL = ("std_ratio", "eff_rank")
_BATCH = 64

Project = Callable[[SentenceEncoder, torch.Tensor, torch.Tensor], torch.Tensor]


def diagnose(
    encoder: SentenceEncoder, texts: Sequence[str], parts: Sequence[Part] = ()
) -> dict[str, Geometry]:
    """The geometry of what ships and of what each loss sees, which collapses first.

    Args:
        encoder: put into evaluation mode; the caller puts it back.
        texts: two or more; a thousand or two give stable figures.
        parts: looked at through their objectives' ``project`` as well.

    Returns:
        ``"h"`` for the pooled vectors, ``"z:<objective>"`` for projected ones.
    """
    looks: dict[str, Project] = {"h": SentenceEncoder.pooled}
    for part in parts:
        if type(part.objective).project is not Objective.project:
            looks[f"z:{part.objective.name}"] = part.objective.project
        part.objective.eval()
    encoder.eval()
    return {name: measure_geometry(_vectors(encoder, texts, look)) for name, look in looks.items()}


@torch.no_grad()
def _vectors(encoder: SentenceEncoder, texts: Sequence[str], look: Project) -> NDArray[np.float32]:
    found = []
    ordered = sorted(texts, key=len)  # the order of the rows matters to no figure
    for start in range(0, len(ordered), _BATCH):
        batch = ordered[start : start + _BATCH]
        ids, mask = tokenize(encoder.tokenizer, batch, encoder.max_length)
        found.append(look(encoder, ids.to(encoder.device), mask.to(encoder.device)).float().cpu())
    return torch.cat(found).numpy()


class Watch:
    """Counts the diagnoses in a row that show a collapse, and ends the run at ``patience``.

    Args:
        patience: 0 never ends a run.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.in_a_row = 0
        self._last = ""

    def alarms(self, found: Mapping[str, Geometry], *, counts: bool = True) -> list[str]:
        """What is alarming, as ``"h.std_ratio"``.

        Args:
            found: a diagnosis.
            counts: towards the patience; that of drawn weights, before the first step, does not.
        """
        pairs = [(view, name) for view, geometry in found.items() for name in geometry.alarms()]
        fatal = [(view, name) for view, name in pairs if name in _FATAL]
        self._last = ", ".join(f"{v}.{n} {getattr(found[v], n):.3g}" for v, n in fatal)
        self.in_a_row = self.in_a_row + 1 if fatal and counts else 0
        return [f"{view}.{name}" for view, name in pairs]

    def check(self, step: int) -> None:
        """Raise if the patience is over.

        Raises:
            ArtifactError: the last ``patience`` diagnoses all showed a collapse.
        """
        if self.patience and self.in_a_row >= self.patience:
            raise ArtifactError(
                f"the vectors have collapsed: {self.in_a_row} diagnoses in a row, the last after "
                f"step {step}, are alarming ({self._last}); expected std_ratio from 0.3 and "
                "eff_rank from about a tenth of the width (or of the texts, where they are fewer). "
                "Look at the temperature, the learning rate and what keeps this objective from "
                "collapsing (negatives, stop-gradient, normalisation)"
            )
