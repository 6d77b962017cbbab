"""Cross-lingual calibration: languages superimposed without parallel data."""

from pocketquery_research.calibration.calibrated_encoder import CalibratedEncoder, calibrate
from pocketquery_research.calibration.calibration import (
    STAGES,
    Calibration,
    CalibrationConfig,
    fit,
)
from pocketquery_research.calibration.stages import calibration_stages

__all__ = [
    "CalibratedEncoder",
    "calibrate",
    "Calibration",
    "CalibrationConfig",
    "calibration_stages",
    "fit",
    "STAGES",
]
