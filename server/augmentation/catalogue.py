"""The server's augmenters by name, beside the rules that the device has as well."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

from pocketquery.client.views.augmenter_choice import Maker
from pocketquery.client.views.augmenters import Augmenter
from pocketquery.client.views.synonyms import Synonyms
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.augmentation.cached import Cached

__all__ = ["CATALOGUE", "GROUP", "Lexicon"]

GROUP = "pocketquery.augmenters"
"""The entry-point group in which other packages register makers of augmenters."""

_RESEARCH = (
    *("contextual", "bart", "t5", "pegasus", "back_translation", "style_transfer"),
    *("mined", "wordnet"),
)


class Lexicon(Synonyms):
    """Synonyms out of a file that ``pocketquery augment --lexicon`` wrote, or the user did."""

    name = "lexicon"


def _load(point: EntryPoint, **settings: Any) -> Augmenter:
    made: Augmenter = point.load()(**settings)
    return made


def _refuse(name: str, **_: Any) -> NoReturn:
    raise InvalidInputError(
        f"the augmenter {name!r} is in the package pocketquery-research, which is not installed; "
        "install it from the repository: pip install ./research"
    )


CATALOGUE: Mapping[str, Maker] = {
    **{name: partial(_refuse, name) for name in _RESEARCH},
    "lexicon": partial(Lexicon, rate=0.1),
    "cached": Cached,
    **{point.name: partial(_load, point) for point in entry_points(group=GROUP)},
}
"""What :func:`pocketquery.client.views.augmenter_choice.choose` takes as plug-ins."""
