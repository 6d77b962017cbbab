"""Teacher to light query encoder, in the teacher's own vector space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketquery.sdk.lazy import lazy_names

if TYPE_CHECKING:
    from pocketquery.distill.adapter_adaptation import adapt_adapter, adapter_config
    from pocketquery.distill.alignment import (
        ALIGNMENT_LOSSES,
        AlignmentConfig,
        align,
        measure_margin,
    )
    from pocketquery.distill.alignment_inputs import AlignmentData, alignment_data
    from pocketquery.distill.bundle_student import bundle_student, load_student
    from pocketquery.distill.distillation import DistillationReport, distill
    from pocketquery.distill.losses import cosine_loss, ranking_loss, share_loss
    from pocketquery.distill.pruning.pruned_student import prune_student
    from pocketquery.distill.pruning.vocabulary import PrunedVocabulary, prune_vocabulary
    from pocketquery.distill.query_towers import EncoderTower, WordAverage, with_alignment_head
    from pocketquery.distill.student import PRESETS, StudentConfig, StudentShape, build_student
    from pocketquery.distill.student_adaptation import (
        StudentAdaptation,
        StudentAdaptationConfig,
        adapt_student,
    )
    from pocketquery.distill.texts import query_like_texts, unique_texts
    from pocketquery.distill.training import TrainingConfig, train

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
    "StudentAdaptation",
    "StudentAdaptationConfig",
    "align",
    "AlignmentConfig",
    "ALIGNMENT_LOSSES",
    "AlignmentData",
    "alignment_data",
    "measure_margin",
    "EncoderTower",
    "WordAverage",
    "with_alignment_head",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "adapter_adaptation": ["adapt_adapter", "adapter_config"],
        "alignment": ["align", "AlignmentConfig", "ALIGNMENT_LOSSES", "measure_margin"],
        "alignment_inputs": ["AlignmentData", "alignment_data"],
        "bundle_student": ["bundle_student", "load_student"],
        "distillation": ["distill", "DistillationReport"],
        "losses": ["cosine_loss", "ranking_loss", "share_loss"],
        "pruning.pruned_student": ["prune_student"],
        "pruning.vocabulary": ["PrunedVocabulary", "prune_vocabulary"],
        "query_towers": ["EncoderTower", "WordAverage", "with_alignment_head"],
        "student": ["PRESETS", "StudentConfig", "StudentShape", "build_student"],
        "student_adaptation": ["StudentAdaptation", "StudentAdaptationConfig", "adapt_student"],
        "texts": ["query_like_texts", "unique_texts"],
        "training": ["TrainingConfig", "train"],
    },
)
