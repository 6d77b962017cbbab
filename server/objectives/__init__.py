"""The objectives of pretraining: pure losses, and what stands around each of them."""

from pocketquery.server.objectives.objective import Batch, LossParts, Objective
from pocketquery.server.objectives.registry import OBJECTIVES, build_objective

__all__ = ["Objective", "LossParts", "Batch", "OBJECTIVES", "build_objective"]
