"""The whole of cross-lingual calibration: shift, scale and rotation of every language.

"Unsupervised Context Aware Sentence Representation Pretraining for Multi-lingual Dense Retrieval",
cross-lingual calibration. Fitted on sentences of each language by itself; nothing is parallel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import AnyFloats
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import whole
from pocketquery.server.evaluation.geometry import unit_rows
from pocketquery_research.calibration.adversarial import AdversarialConfig, adversarial_start
from pocketquery_research.calibration.rotation import refine
from pocketquery_research.calibration.statistics import Statistics, fit_statistics

__all__ = ["STAGES", "Calibration", "CalibrationConfig", "LanguageCalibration", "Stage", "fit"]

Stage = Literal["raw", "shift", "scale", "rotate"]

STAGES: tuple[Stage, ...] = ("raw", "shift", "scale", "rotate")
"""What is applied, each with all before it, in this order."""


@dataclass(frozen=True)
class CalibrationConfig(Settings):
    """Settings of :func:`fit`."""

    pivot: Annotated[
        str,
        'the language the others are rotated onto; "" for English where it is among them, else '
        "the one with the most sentences",
    ] = ""
    divisor: Annotated[
        Literal["std", "variance"], "std or variance; see :func:`fit_statistics`"
    ] = "std"
    rotation: Annotated[
        Literal["refine", "adversarial", "none"],
        "refine, adversarial (which starts the refinement) or none",
    ] = "refine"
    rounds: Annotated[int, whole(), "of the refinement"] = 5
    neighbours: Annotated[int, whole(), "K of CSLS"] = 10
    least_sentences: Annotated[int, whole(), "a language with fewer is refused"] = 2000
    seed: Annotated[int, "of the adversarial start"] = 0
    adversarial: Annotated[AdversarialConfig, "its settings"] = field(
        default_factory=AdversarialConfig
    )


@dataclass(frozen=True)
class LanguageCalibration:
    """What is done to the vectors of one language.

    Attributes:
        statistics: shift and scale.
        rotation: float64 (dim, dim), onto the pivot; None for none.
        sentences: how many it was fitted on.
        pairs: mutual neighbours of the pivot's sentences under the rotation.
        cosine: their mean cosine.
    """

    statistics: Statistics
    rotation: NDArray[np.float64] | None
    sentences: int
    pairs: int = 0
    cosine: float = 0.0


@dataclass(frozen=True)
class Calibration:
    """A fitted calibration.

    Attributes:
        pivot: the language the others are rotated onto.
        languages: what is done to each.
    """

    pivot: str
    languages: Mapping[str, LanguageCalibration]

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        return len(self.languages[self.pivot].statistics.mean)

    def apply(
        self, vectors: AnyFloats, language: str, stage: Stage = "rotate"
    ) -> NDArray[np.float32]:
        """Calibrated vectors.

        Args:
            vectors: float (n, dim), as the encoder gives them.
            language: whose.
            stage: the last of :data:`STAGES` to apply.

        Returns:
            float32 (n, dim), rows of unit length.

        Raises:
            InvalidInputError: the language was not calibrated, or vectors of another width.
        """
        if language not in self.languages:
            raise InvalidInputError(
                f'the language "{language}" is not calibrated; known are '
                f"{', '.join(sorted(self.languages))}. Fit it with a few thousand of its sentences"
            )
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise InvalidInputError(
                f"the vectors have shape {vectors.shape}; expected (n, {self.dimension})"
            )
        fitted = self.languages[language]
        return _applied(vectors, fitted, stage).astype(np.float32)


def _applied(vectors: AnyFloats, fitted: LanguageCalibration, stage: Stage) -> AnyFloats:
    if stage == "raw":
        return unit_rows(vectors)
    if stage == "shift":
        return fitted.statistics.shifted(vectors)
    scaled = fitted.statistics.scaled(vectors)
    if stage == "scale" or fitted.rotation is None:
        return scaled
    return unit_rows(scaled @ fitted.rotation.T)


def fit(vectors: Mapping[str, AnyFloats], config: CalibrationConfig) -> Calibration:
    """Fit the calibration of several languages.

    Args:
        vectors: for every language float (n, dim), of sentences held out from training and kept
            apart from evaluation. The layer and pooling are those that are used later.
        config: how.

    Raises:
        InvalidInputError: no language, too few sentences, an unknown pivot, other widths.
    """
    _check(vectors, config)
    pivot = config.pivot or _default_pivot(vectors)
    statistics = {
        language: fit_statistics(found, config.divisor) for language, found in vectors.items()
    }
    scaled = {language: statistics[language].scaled(found) for language, found in vectors.items()}
    languages = {
        language: _fit_one(scaled[language], scaled[pivot], statistics[language], config)
        if language != pivot and config.rotation != "none"
        else LanguageCalibration(statistics[language], None, len(scaled[language]))
        for language in sorted(vectors)
    }
    return Calibration(pivot, languages)


def _fit_one(
    source: AnyFloats, target: AnyFloats, statistics: Statistics, config: CalibrationConfig
) -> LanguageCalibration:
    start = None
    if config.rotation == "adversarial":
        start = adversarial_start(source, target, config.adversarial, seed=config.seed)
    found = refine(source, target, start=start, rounds=config.rounds, neighbours=config.neighbours)
    return LanguageCalibration(statistics, found.rotation, len(source), found.pairs, found.cosine)


def _default_pivot(vectors: Mapping[str, AnyFloats]) -> str:
    english = [language for language in ("en", "eng") if language in vectors]
    return english[0] if english else max(sorted(vectors), key=lambda name: len(vectors[name]))


def _check(vectors: Mapping[str, AnyFloats], config: CalibrationConfig) -> None:
    if not vectors:
        raise InvalidInputError("there is no language to calibrate; expected one or more")
    for language, found in vectors.items():
        if len(found) < config.least_sentences:
            raise InvalidInputError(
                f'the language "{language}" has {len(found)} sentences; expected at least '
                f"{config.least_sentences}. Give it more, leave it out, or lower least_sentences"
            )
    widths = {found.shape[1] for found in vectors.values()}
    if len(widths) > 1:
        raise InvalidInputError(f"the vectors have widths {sorted(widths)}; expected one width")
    if config.pivot and config.pivot not in vectors:
        raise InvalidInputError(
            f'the pivot "{config.pivot}" is not among the languages '
            f"({', '.join(sorted(vectors))}); name one of them"
        )
