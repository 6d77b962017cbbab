"""How a student begins, learns and is adapted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pocketquery.client.adaptation.acceptance import LARGEST_DRIFT
from pocketquery.client.adaptation.pseudo_queries import LEAST_KEPT_ASIDE
from pocketquery.client.local_config import HYBRID_SHARPNESS
from pocketquery.sdk.settings.common import Bfloat16, Seed, Share, integers
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery.sdk.validation import number, whole

__all__ = ["StudentAdaptationConfig", "StudentConfig", "TrainingConfig"]


@dataclass(frozen=True)
class StudentConfig(Settings):
    """What a student is before it learns."""

    shape: Annotated[
        str | None,
        "layers x width; 3x384x768: with a narrower FFN; 2x384-pq8: eight dimensions of the "
        "vocabulary table a byte (default: 3x384 of the teacher's layers or random ones, else all "
        "that the start has)",
        Option("LxW", "student"),
    ] = None
    layers: Annotated[
        tuple[int, ...] | None,
        "layers to start from (default: evenly spaced)",
        Option("0,2,5", parse=integers),
    ] = None
    vocabulary_size: Annotated[
        int | None, whole(), "prune to about N subword tokens", Option("N", "vocabulary")
    ] = None
    vocabulary_coverage: Annotated[
        float | None, number(0, 1), "or to those that cover this share of the texts' tokens"
    ] = None
    least_character: Annotated[
        int, whole(0), "how often the texts have a single character that a pruning leaves in"
    ] = 0
    max_length: Annotated[int, whole(4), "tokens of a query on the device, specials included"] = 128


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """How the student learns."""

    steps: Annotated[int, whole(), "optimiser steps"] = 1000
    batch_size: Annotated[int, whole(), "texts a step"] = 64
    learning_rate: Annotated[
        float, number(above=0), "peak of AdamW's, after a linear warm-up and before a linear fall"
    ] = 5e-4
    warmup: Annotated[Share, "of the steps that warm up"] = 0.1
    weight_decay: Annotated[float, number(0), "of matrices; vectors and biases have none"] = 0.01
    max_gradient_norm: Annotated[float, number(above=0), "clipping"] = 1.0
    max_length: Annotated[int, whole(), "tokens of a training text, specials included"] = 64
    cosine_weight: Annotated[float, number(0), "of the regression onto the teacher's vector"] = 1.0
    ranking_weight: Annotated[float, number(0), "of the teacher's ranking of documents"] = 1.0
    temperature: Annotated[float, number(above=0), "tau of the ranking"] = 0.05
    nearest: Annotated[
        int, whole(), "documents ranked highest by the teacher that join the sample, per text"
    ] = 8
    random_documents: Annotated[int, whole(0), "documents drawn at random, per step"] = 256
    typo_share: Annotated[Share, "share of texts that are mistyped"] = 0.0
    typo_rate: Annotated[Share, "errors a letter in those"] = 0.08
    quantised_share: Annotated[
        Share,
        "last part of the steps, which computes as the int8 file will",
    ] = 0.0
    train_vocabulary: Annotated[
        bool,
        "train the vocabulary table too; without it a step takes three quarters of the time and "
        "the table stays the teacher's (or its principal components)",
    ] = True
    seed: Seed = 0
    bfloat16: Bfloat16 = False
    checkpoint_every: Annotated[int, whole(), "steps between checkpoints"] = 100
    workers: Annotated[int, whole(0), "processes that prepare batches; not part of a result"] = 0


@dataclass(frozen=True)
class StudentAdaptationConfig(Settings):
    """How a student is adapted.

    Of ``training``, ``nearest`` is how many of the hybrid's best documents are ranked. The
    vocabulary table stays as it is, so that a product-quantised one can be exported.
    """

    training: TrainingConfig = TrainingConfig(
        steps=900,
        batch_size=32,
        learning_rate=1e-4,
        cosine_weight=0.5,
        nearest=50,
        typo_share=0.5,
        train_vocabulary=False,
    )
    ranked_by: Annotated[
        Literal["hybrid", "teacher", "both"],
        "what ranks: words and the teacher's meaning, its meaning alone (plain distillation), or "
        "half of each",
    ] = "both"
    sharpness: Annotated[
        float, number(1e-3, 10), "of the hybrid's scores: the lower, the more its first one counts"
    ] = HYBRID_SHARPNESS
    interpolation: Annotated[
        float,
        number(0.01, 1),
        "of the way from the student's weights to the trained ones; less keeps more of what it "
        "knew of other documents",
        Option("SHARE"),
    ] = 0.75
    largest_drift: Annotated[
        float,
        number(1e-3, 2),
        "of texts of all kinds, mean of 1 - cos to their vectors before; interpolation shrinks "
        "until they move no further",
    ] = LARGEST_DRIFT
    most_queries: Annotated[int, whole(), "pseudo-queries to train on, at most"] = 9000
    most_kept_aside: Annotated[
        int, whole(LEAST_KEPT_ASIDE), "pseudo-queries to judge by, of documents that teach nothing"
    ] = 500
    stretches: Annotated[
        int, whole(1, 100), "of a document's sentences that are pseudo-queries, beside its title"
    ] = 6
