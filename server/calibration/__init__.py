"""Cross-lingual calibration: languages superimposed without parallel data."""

from pocketquery.server.calibration.calibrated_encoder import CalibratedEncoder, calibrate
from pocketquery.server.calibration.calibration import (
    STAGES,
    Calibration,
    CalibrationConfig,
    fit,
)

__all__ = ["CalibratedEncoder", "calibrate", "Calibration", "CalibrationConfig", "fit", "STAGES"]
