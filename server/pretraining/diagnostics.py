"""Measure the geometry of held-out vectors during a run, and end a run that collapses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.evaluation.geometry import (
    Geometry,
    alignment,
    language_probe,
    measure_geometry,
    partner_recall,
)
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Objective, tokenize
from pocketquery.server.pretraining.held_out import HeldOut
from pocketquery.server.pretraining.mixture import Part

__all__ = ["Diagnosis", "Watch", "diagnose"]

# They see different collapses, and between them all; the other alarms are to be looked at.
_COLLAPSE_FIGURES = ("std_ratio", "eff_rank")
_BATCH = 64
_LEAST_SAMPLE = 20  # texts of a language, or pairs, below which figures of them say nothing

Project = Callable[[SentenceEncoder, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Diagnosis:
    """How the held-out vectors lie, of one view.

    Attributes:
        geometry: of the vectors.
        relations: what is known of their partners and languages, by name: ``alignment`` (mean
            squared distance of partners; says nothing alone), ``partner_recall@10`` (share of the
            texts whose partner is among the ten nearest partners of its language) and
            ``lang_probe`` (share that is nearest to its own language's centroid). A recall that
            falls while the loss falls shows a leak.
    """

    geometry: Geometry
    relations: Mapping[str, float] = field(default_factory=dict)

    def figures(self) -> dict[str, float]:
        """All figures by name, as the logs show them."""
        return {**self.geometry.figures(), **self.relations}


def diagnose(
    encoder: SentenceEncoder, held_out: HeldOut, parts: Sequence[Part] = ()
) -> dict[str, Diagnosis]:
    """The geometry of what ships and of what each loss sees, which collapses first.

    Args:
        encoder: put into evaluation mode; the caller puts it back.
        held_out: two texts or more; a thousand or two give stable figures.
        parts: measured through their objectives' ``project`` as well.

    Returns:
        ``"h"`` for the pooled vectors, ``"z:<objective>"`` for projected ones.
    """
    looks: dict[str, Project] = {"h": SentenceEncoder.pooled}
    for part in parts:
        if type(part.objective).project is not Objective.project:
            looks[f"z:{part.objective.name}"] = part.objective.project
        part.objective.eval()
    encoder.eval()
    return {name: _diagnosis(encoder, held_out, look) for name, look in looks.items()}


def _diagnosis(encoder: SentenceEncoder, held_out: HeldOut, look: Project) -> Diagnosis:
    vectors = _vectors(encoder, held_out.texts, look)  # (texts, width)
    names = np.array(held_out.languages or [""] * len(held_out))
    rows = {str(name): np.flatnonzero(names == name) for name in np.unique(names)}
    relations = _of_partners(encoder, held_out, look, vectors, rows)
    spoken = {
        name: vectors[places]
        for name, places in rows.items()
        if name and len(places) >= _LEAST_SAMPLE
    }
    if len(spoken) > 1:
        relations["lang_probe"] = language_probe(spoken)
    return Diagnosis(measure_geometry(vectors), relations)


def _of_partners(
    encoder: SentenceEncoder,
    held_out: HeldOut,
    look: Project,
    vectors: Floats,
    rows: Mapping[str, NDArray[np.int64]],
) -> dict[str, float]:
    """Alignment, and the recall of partners, mean over the languages."""
    paired = np.flatnonzero([bool(partner) for partner in held_out.partners])
    if len(paired) < _LEAST_SAMPLE:
        return {}
    theirs = np.zeros_like(vectors)
    theirs[paired] = _vectors(encoder, [held_out.partners[row] for row in paired.tolist()], look)
    within = [np.intersect1d(paired, spoken) for spoken in rows.values()]
    recalls = [partner_recall(vectors[a], theirs[a]) for a in within if len(a) >= _LEAST_SAMPLE]
    figures = {"alignment": alignment(vectors[paired], theirs[paired])}
    return figures | ({"partner_recall@10": float(np.mean(recalls))} if recalls else {})


@torch.no_grad()
def _vectors(encoder: SentenceEncoder, texts: Sequence[str], look: Project) -> Floats:
    """Texts of like length together, the rows in the order of the texts."""
    batches = []
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    for start in range(0, len(order), _BATCH):
        batch = [texts[row] for row in order[start : start + _BATCH]]
        ids, mask = tokenize(encoder.tokenizer, batch, encoder.max_length)
        batches.append(look(encoder, ids.to(encoder.device), mask.to(encoder.device)).float().cpu())
    vectors: Floats = torch.cat(batches).numpy()[np.argsort(order)]
    return vectors


class Watch:
    """Counts the diagnoses in a row that show a collapse, or an alarm of an objective's own, and
    ends the run at ``patience``.

    Args:
        patience: 0 never ends a run.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.in_a_row = 0
        self._last = ""
        self._collapsed = False

    def alarms(
        self, diagnoses: Mapping[str, Diagnosis], own: Sequence[str] = (), *, counts: bool = True
    ) -> list[str]:
        """What is alarming, as ``"h.std_ratio"``.

        Args:
            diagnoses: by view.
            own: alarms of the objectives themselves, say of views that change nothing.
            counts: towards the patience; the random start, before the first step, does not.
        """
        pairs = [(view, name) for view, one in diagnoses.items() for name in one.geometry.alarms()]
        fatal = [(view, name) for view, name in pairs if name in _COLLAPSE_FIGURES]
        shown = ((v, n, getattr(diagnoses[v].geometry, n)) for v, n in fatal)
        named = [f"{view}.{name} {value:.3g}" for view, name, value in shown]
        self._last = ", ".join([*named, *own])
        self._collapsed = bool(fatal)
        self.in_a_row = self.in_a_row + 1 if (fatal or own) and counts else 0
        return [*(f"{view}.{name}" for view, name in pairs), *own]

    def check(self, step: int) -> None:
        """Raise if the patience is over.

        Raises:
            ArtifactError: the last ``patience`` diagnoses were all alarming.
        """
        if not self.patience or self.in_a_row < self.patience:
            return
        finding = f"{self.in_a_row} diagnoses in a row, the last after step {step}, are alarming"
        if not self._collapsed:
            raise ArtifactError(
                f"an objective says that it cannot learn: {finding} ({self._last}). Where views "
                "are identical, a fifth of the texts and more come out of an augmenter as they "
                "went in: take others (pocketquery augment shows what each does to your texts)"
            )
        raise ArtifactError(
            f"the vectors have collapsed: {finding} ({self._last}); expected std_ratio from 0.3 "
            "and eff_rank from about a tenth of the width (or of the texts, where they are fewer). "
            "Look at the temperature, the learning rate and what keeps this objective from "
            "collapsing (negatives, stop-gradient, normalisation)"
        )
