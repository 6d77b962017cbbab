"""Bundles that are installed: the built-in one, and those of data packages.

A data package is a Python package that holds a bundle and names it in the entry-point group
``pocketquery.bundles``, as ``NAME = "package:FOLDER"`` or ``NAME = "package.inner:FOLDER"``. It is
found without running its code, or that of a package around it.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pocketquery.sdk.errors import PocketQueryWarning

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

__all__ = [
    "BUNDLE_VARIABLE",
    "DEFAULT",
    "DEFAULT_BUNDLE",
    "KEY_VARIABLE",
    "bundles",
    "installed_bundle",
    "warn_of_shadow",
]

BUNDLE_VARIABLE = "POCKETQUERY_BUNDLE"
"""Of the environment: the bundle that is used where none is named."""
KEY_VARIABLE = "POCKETQUERY_PUBLIC_KEY"
"""Of the environment: the key that bundles must be signed by."""

DEFAULT = "default"
_SDK = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFAULT_BUNDLE = os.path.join(_SDK, "default")
"""The folder of the built-in bundle; text, for pathlib takes longer than to open it."""

_GROUP = "pocketquery.bundles"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
_VALUE = r"(\w+(?:\.\w+)*)\s*:\s*(\w[\w.]*)"


def bundles() -> Mapping[str, Path]:
    """The installed bundles by name: ``"default"``, and one for each data package.

    An entry that leads to nothing (its package is gone, or says it otherwise) is passed over.
    """
    # Here, because it takes longer than opening the default, which does not ask for it.
    from importlib.metadata import entry_points
    from pathlib import Path

    places = {DEFAULT: Path(DEFAULT_BUNDLE)}
    for point in entry_points(group=_GROUP):
        place = next((one for one in _places(point) if one.exists()), None)
        if place is not None:
            places.setdefault(point.name, place)
    return places


def installed_bundle(name: Path | str) -> Path | str | None:
    """Where the bundle installed as ``name`` is; None where there is none, or that can be no name.

    A name never means what is in the working folder: anybody who may write there, as to a folder of
    downloads, would choose the encoder. A path has a separator, or is no installed bundle's name.
    """
    if name == DEFAULT:
        return DEFAULT_BUNDLE
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
        return None
    return bundles().get(name)


def warn_of_shadow(name: Path | str, marker: str) -> None:
    """Say that ``name`` was taken for an installed one's, where the working folder has a file of
    that name, or a folder of it with the file ``marker``."""
    if os.path.isfile(name) or os.path.isfile(os.path.join(name, marker)):
        here = os.path.join(os.curdir, name)
        warnings.warn(
            f"{name} is taken for the installed one of that name, not for what is in the working "
            f"folder; write {here} for that",
            PocketQueryWarning,
            stacklevel=2,
        )


def _places(point: EntryPoint) -> Iterator[Path]:
    """Where ``point``'s folder may lie: beside its metadata, else (an editable installation) where
    its outermost package does. The import system is not asked about an inner one: it would run the
    outer one for the answer.
    """
    from importlib.util import find_spec
    from pathlib import Path

    value = re.fullmatch(_VALUE, point.value)
    if value is None:
        return
    outer, *inner = value[1].split(".")
    inner.append(value[2])
    if point.dist is not None:
        yield Path(str(point.dist.locate_file(Path(outer, *inner))))
    try:
        spec = find_spec(outer)
    except (ImportError, ValueError):  # a finder that fails, a module without a spec
        return
    for place in () if spec is None else spec.submodule_search_locations or ():
        yield Path(place, *inner)
