"""Augmenters by name, from a configuration; one that is missing is an error or has a fallback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pocketquery.client.views.augmenters import Augmenter
from pocketquery.client.views.typing_augmenters import DropoutView, NoiseCase, Typo, Unfinished
from pocketquery.client.views.word_augmenters import NeighbourSwap, Shuffle, WordDrop
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["BUILT_IN", "Choice", "Maker", "choose"]

Maker = Callable[..., Augmenter]
Choice = str | Mapping[str, Any]

# "word_drop" is also what catalogues call deletion: light with {"rate": 0.1, "at_least": 0}, heavy
# with {"rate": 0.3}.
BUILT_IN: Mapping[str, Maker] = {
    "typo": Typo,
    "word_drop": WordDrop,
    "neighbour_swap": NeighbourSwap,
    "shuffle": Shuffle,
    "unfinished": Unfinished,
    "noise_case": NoiseCase,
    "dropout_view": DropoutView,
}


def choose(choice: Choice, plugins: Mapping[str, Maker] | None = None) -> Augmenter:
    """The augmenter that ``choice`` names: a name, or a mapping of ``name``, its parameters and,
    where it may be unavailable, a ``fallback``, which is a choice again.

    Args:
        choice: say "typo" or ``{"name": "typo", "rate": 0.2}``.
        plugins: further makers by name; of one name with ours, theirs counts.

    Raises:
        InvalidInputError: an unknown name, a parameter it does not take, or it is unavailable and
            there is no fallback.
    """
    if not isinstance(choice, str | Mapping):
        raise InvalidInputError(
            f"found the augmenter {choice!r}, expected a name, or its name and parameters such as "
            '{"name": "typo", "rate": 0.2}'
        )
    settings = {"name": choice} if isinstance(choice, str) else dict(choice)
    name, fallback = settings.pop("name", None), settings.pop("fallback", None)
    makers = {**BUILT_IN, **(plugins or {})}
    if not isinstance(name, str) or name not in makers:
        raise InvalidInputError(
            f"found the augmenter {name!r}, expected one of {', '.join(sorted(makers))}"
        )
    try:
        made = makers[name](**settings)
    except TypeError as error:
        raise InvalidInputError(
            f"the augmenter {name!r} does not take {settings}: {error}; see its documentation"
        ) from error
    usable, missing = made.available()
    if usable:
        return made
    if fallback is None:
        raise InvalidInputError(
            f"the augmenter {name!r} is not available: {missing}. Provide it, or name a fallback"
        )
    return choose(fallback, plugins)
