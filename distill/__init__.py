"""Teacher to light query encoder, in the teacher's own vector space."""

from pocketquery.distill.distillation import DistillationReport, distill
from pocketquery.distill.losses import cosine_loss, ranking_loss, similarity_loss
from pocketquery.distill.student import PRESETS, StudentShape, build_student
from pocketquery.distill.training import TrainingConfig, train
from pocketquery.distill.vocabulary import PrunedVocabulary, prune_vocabulary

__all__ = [
    "PRESETS",
    "DistillationReport",
    "PrunedVocabulary",
    "StudentShape",
    "TrainingConfig",
    "build_student",
    "cosine_loss",
    "distill",
    "prune_vocabulary",
    "ranking_loss",
    "similarity_loss",
    "train",
]
