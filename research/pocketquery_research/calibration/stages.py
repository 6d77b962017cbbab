"""What each stage of a calibration does for translations."""

from __future__ import annotations

from pocketquery.sdk.arrays import AnyFloats
from pocketquery_research.calibration.calibration import STAGES, Calibration
from pocketquery_research.evaluation.translation import TwoWay, two_way

__all__ = ["calibration_stages"]


def calibration_stages(
    calibration: Calibration,
    left: AnyFloats,
    right: AnyFloats,
    left_language: str,
    right_language: str,
) -> dict[str, TwoWay]:
    """The two-way accuracy after each of the calibration's stages, raw first.

    Args:
        calibration: fitted without these sentences.
        left: float (n, dim), as the encoder gives them.
        right: float (n, dim), their translations.
        left_language: of ``left``.
        right_language: of ``right``.
    """
    return {
        stage: two_way(
            calibration.apply(left, left_language, stage),
            calibration.apply(right, right_language, stage),
        )
        for stage in STAGES
    }
