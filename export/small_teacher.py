"""A teacher as its own student, without training: fewer pieces, a table in product codes.

Most of a small multilingual encoder is its vocabulary table. Product codes keep it at a fraction
of the bytes; pieces that go are read in smaller ones, which costs more (docs/distillation.md).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from pocketquery.distill.exportable import check_exportable
from pocketquery.distill.pruning.product_quantization import expand_vocabulary, quantise_vocabulary
from pocketquery.distill.pruning.pruned_student import prune_student
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["small_teacher"]


def small_teacher(
    teacher: SentenceEncoder,
    texts: Sequence[str],
    *,
    vocabulary_size: int | None = None,
    subvector: int | None = None,
    fine: int = 0,
    max_length: int | None = None,
    seed: int = 0,
) -> SentenceEncoder:
    """A query encoder of the teacher's space that is the teacher, made small. ::

        student = small_teacher(SentenceEncoder.load("multilingual"), texts, subvector=8)

    Args:
        teacher: a BERT-like encoder; it is only read.
        texts: by which pieces are chosen and codes are fitted.
        vocabulary_size: pieces to keep; None for all.
        subvector: dimensions of the vocabulary table that share a byte; None: a byte for each.
        fine: pieces, the first, of which half as many dimensions share a byte; a sentencepiece
            vocabulary has its most frequent ones first.
        max_length: tokens of a text; None, and at most, the teacher's.
        seed: of the first centroids.

    Raises:
        UnknownModelError: no bundle can be made of such a teacher.
        InvalidInputError: no texts, or ``subvector`` does not divide the table's width.
    """
    check_exportable(teacher)
    student = copy.deepcopy(teacher).with_device_ids()
    width = student.backbone.get_input_embeddings().embedding_dim
    if subvector is not None and width % subvector:
        raise InvalidInputError(
            f"subvector is {subvector}, expected a divisor of the table's {width} dimensions"
        )
    student.space = {
        "space_id": teacher.space_id,
        "dimension": teacher.dimension,
        "teacher": teacher.name,
    }
    student.max_length = min(max_length or teacher.max_length, teacher.max_length)
    whole = [student.prompts.get("query", "") + text for text in texts]
    if vocabulary_size is not None:
        prune_student(student, whole, target_size=vocabulary_size)
    if subvector is not None:
        quantise_vocabulary(student, whole, subvector, seed, fine=fine)
        expand_vocabulary(student)
    return student
