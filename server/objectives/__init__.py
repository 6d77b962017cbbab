"""The objectives of pretraining: pure losses, and the batches, heads and targets around them."""

from pocketquery.server.objectives.objective import Batch, LossParts, Objective
from pocketquery.server.objectives.registry import OBJECTIVES, build_objective, objective_class
from pocketquery.server.objectives.shared.word_predictor import PredictedWord, WordPredictor

__all__ = [
    "OBJECTIVES",
    "Batch",
    "LossParts",
    "Objective",
    "PredictedWord",
    "WordPredictor",
    "build_objective",
    "objective_class",
]
