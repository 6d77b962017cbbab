"""Fill a cache: run an augmenter once over many texts."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pocketquery.client.views.augmenters import Augmenter
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.progress import Progress
from pocketquery.sdk.validation import check_count
from pocketquery.server.objectives.augmenter_identity import Identity
from pocketquery_research.augmentation.variant_cache import VariantCache

__all__ = ["Filled", "fill"]


@dataclass(frozen=True)
class Filled:
    """What a filling did.

    Attributes:
        texts: different ones, none blank.
        made: variants made now.
        present: variants that were there.
        unchanged: of those made, how many are their text.
    """

    texts: int
    made: int
    present: int
    unchanged: int


def fill(
    cache: VariantCache,
    augmenter: Augmenter,
    texts: Sequence[str],
    *,
    variants: int = 1,
    seed: int = 0,
    lang: str | None = None,
    batch_size: int = 32,
    show_progress_bar: bool = False,
) -> Filled:
    """Make the variants of ``texts`` that the cache lacks; each batch is in it whole, or not.

    Killed and called again with the same arguments, it gives the variants that it would have given
    undisturbed: a batch's randomness depends on the seed, the variant's number and the batch.

    Args:
        cache: where they go.
        augmenter: any.
        texts: blank ones and repetitions are left out.
        variants: of each text.
        seed: of the randomness.
        lang: the texts' language, where it is known.
        batch_size: texts that the augmenter sees at once.
        show_progress_bar: whether to show one.

    Raises:
        InvalidInputError: no count; the augmenter is not available, or made a blank variant.
    """
    check_count(variants, "variants")
    check_count(batch_size, "batch_size")
    usable, missing = augmenter.available()
    if not usable:
        raise InvalidInputError(f"the augmenter {augmenter.name!r} is not available: {missing}")
    identity = cache.introduce(augmenter)
    wanted = [text for text in dict.fromkeys(texts) if text.strip()]
    made = unchanged = 0
    with Progress(len(wanted), "augment", "text", show=show_progress_bar) as bar:
        for start in range(0, len(wanted), batch_size):
            batch = wanted[start : start + batch_size]
            rows = list(_made(cache, augmenter, identity, batch, variants, seed, lang))
            cache.add(identity, rows)
            made += len(rows)
            unchanged += sum(text == variant for text, _, variant in rows)
            bar.update(len(batch))
    return Filled(len(wanted), made, len(wanted) * variants - made, unchanged)


def _made(
    cache: VariantCache,
    augmenter: Augmenter,
    identity: Identity,
    batch: list[str],
    variants: int,
    seed: int,
    lang: str | None,
) -> Iterator[tuple[str, int, str]]:
    """(text, number, variant) of the variants that are missing."""
    present = {text: cache.variants(text, identity) for text in batch}
    for number in range(variants):
        missing = [text for text in batch if number not in present[text]]
        if not missing:
            continue
        results = augmenter.augment_batch(missing, _rng(seed, number, missing), lang)
        for text, result in zip(missing, results, strict=True):
            if not result.text.strip():
                raise InvalidInputError(
                    f"the augmenter {augmenter.name!r} made a blank variant of {text!r}; repair it"
                )
            yield text, number, result.text


def _rng(seed: int, number: int, texts: list[str]) -> random.Random:
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    return random.Random(f"{seed} {number} {digest}")
