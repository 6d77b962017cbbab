"""The augmenters that other packages register, beside the rules that the device has as well."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

from pocketquery.client.views.augmenter_choice import Maker
from pocketquery.client.views.augmenters import Augmenter
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["CATALOGUE", "GROUP"]

GROUP = "pocketquery.augmenters"
"""The entry-point group in which other packages register makers of augmenters."""

_RESEARCH = (
    "contextual bart t5 pegasus back_translation style_transfer mined wordnet lexicon cached "
    "crop stopword_drop punct style_rules synonym template"
).split()


def _load(point: EntryPoint, **settings: Any) -> Augmenter:
    made: Augmenter = point.load()(**settings)
    return made


def _refuse(name: str, **_: Any) -> NoReturn:
    raise InvalidInputError.in_package(f'the augmenter "{name}" is')


CATALOGUE: Mapping[str, Maker] = {
    **{name: partial(_refuse, name) for name in _RESEARCH},
    **{point.name: partial(_load, point) for point in entry_points(group=GROUP)},
}
"""What :func:`pocketquery.client.views.augmenter_choice.choose` takes as plug-ins."""
