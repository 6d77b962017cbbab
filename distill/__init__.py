"""Teacher to light query encoder, in the teacher's own vector space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketquery.sdk.lazy import lazy_names

if TYPE_CHECKING:
    from pocketquery.distill.adaptation.adapter_adaptation import adapt_adapter, adapter_config
    from pocketquery.distill.adaptation.student_adaptation import StudentAdaptation, adapt_student
    from pocketquery.distill.distillation import DistillationReport, distill
    from pocketquery.distill.losses import cosine_loss, ranking_loss, share_loss
    from pocketquery.distill.pruning.pruned_student import prune_student
    from pocketquery.distill.pruning.vocabulary import PrunedVocabulary, prune_vocabulary
    from pocketquery.distill.settings import (
        StudentAdaptationConfig,
        StudentConfig,
        TrainingConfig,
    )
    from pocketquery.distill.student import PRESETS, StudentShape, build_student
    from pocketquery.distill.student_of_bundle import bundle_student, load_student
    from pocketquery.distill.texts import query_like_texts, unique_texts
    from pocketquery.distill.training import train

__all__ = [
    "distill",
    "DistillationReport",
    "TrainingConfig",
    "train",
    "PRESETS",
    "StudentConfig",
    "StudentShape",
    "build_student",
    "prune_student",
    "prune_vocabulary",
    "PrunedVocabulary",
    "query_like_texts",
    "unique_texts",
    "cosine_loss",
    "ranking_loss",
    "share_loss",
    "adapt_student",
    "adapt_adapter",
    "adapter_config",
    "bundle_student",
    "load_student",
    "FileTeacher",
    "ModelTeacher",
    "VectorTeacher",
    "load_teacher",
    "StudentAdaptation",
    "StudentAdaptationConfig",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "adaptation.adapter_adaptation": ["adapt_adapter", "adapter_config"],
        "student_of_bundle": ["bundle_student", "load_student"],
        "distillation": ["distill", "DistillationReport"],
        "losses": ["cosine_loss", "ranking_loss", "share_loss"],
        "pruning.pruned_student": ["prune_student"],
        "pruning.vocabulary": ["PrunedVocabulary", "prune_vocabulary"],
        "settings": ["StudentAdaptationConfig", "StudentConfig", "TrainingConfig"],
        "teachers": ["ModelTeacher", "VectorTeacher", "load_teacher"],
        "vector_file": ["FileTeacher"],
        "student": ["PRESETS", "StudentShape", "build_student"],
        "adaptation.student_adaptation": ["StudentAdaptation", "adapt_student"],
        "texts": ["query_like_texts", "unique_texts"],
        "training": ["train"],
    },
)
