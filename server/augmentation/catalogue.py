"""The server's augmenters by name, beside the rules that the device has as well."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pocketquery.client.views.augmenter_choice import Maker
from pocketquery.client.views.synonyms import Synonyms
from pocketquery.server.augmentation.cached import Cached
from pocketquery.server.augmentation.contextual import Contextual
from pocketquery.server.augmentation.generation import BackTranslation, Paraphrase, StyleTransfer
from pocketquery.server.augmentation.mined import Mined
from pocketquery.server.augmentation.wordnet import WordNet

__all__ = ["CATALOGUE", "Lexicon"]


class Lexicon(Synonyms):
    """Synonyms out of a file that ``pocketquery augment --lexicon`` wrote, or the user did."""

    name = "lexicon"


CATALOGUE: Mapping[str, Maker] = {
    "contextual": Contextual,
    "bart": partial(Paraphrase, kind="bart"),
    "t5": partial(Paraphrase, kind="t5"),
    "pegasus": partial(Paraphrase, kind="pegasus"),
    "back_translation": BackTranslation,
    "style_transfer": StyleTransfer,
    "wordnet": WordNet,
    "lexicon": partial(Lexicon, rate=0.1),
    "mined": Mined,
    "cached": Cached,
}
"""What :func:`pocketquery.client.views.augmenter_choice.choose` takes as plug-ins."""
