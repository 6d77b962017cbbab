"""Augmenters that need a model, a thesaurus or a teacher; `pocketquery augment` finds them."""

from functools import partial

from pocketquery_research.augmentation.cached import Cached
from pocketquery_research.augmentation.contextual import Contextual
from pocketquery_research.augmentation.generation import BackTranslation, Paraphrase, StyleTransfer
from pocketquery_research.augmentation.lexicon import Lexicon
from pocketquery_research.augmentation.mined import Mined
from pocketquery_research.augmentation.wordnet import WordNet

__all__ = [
    "BackTranslation",
    "Cached",
    "Contextual",
    "Lexicon",
    "Mined",
    "Paraphrase",
    "StyleTransfer",
    "WordNet",
    "bart",
    "lexicon",
    "pegasus",
    "t5",
]

bart = partial(Paraphrase, kind="bart")
t5 = partial(Paraphrase, kind="t5")
pegasus = partial(Paraphrase, kind="pegasus")
lexicon = partial(Lexicon, rate=0.1)
