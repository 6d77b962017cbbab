"""Bundles that are installed: the one that comes with the SDK, and those of data packages.

A data package is a Python package that holds a bundle and names it in the entry-point group
``pocketquery.bundles``, as ``NAME = "package:FOLDER"``. It is found without running its code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["DEFAULT", "DEFAULT_BUNDLE", "bundles", "installed_bundle"]

DEFAULT = "default"
DEFAULT_BUNDLE = Path(__file__).parents[1] / "default"

_GROUP = "pocketquery.bundles"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def bundles() -> Mapping[str, Path]:
    """The installed bundles by name: ``"default"``, and one for each data package."""
    # Here, because they take longer than opening the default, which asks for neither.
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    found = {DEFAULT: DEFAULT_BUNDLE}
    for point in entry_points(group=_GROUP):
        spec = find_spec(point.module)
        for place in () if spec is None else spec.submodule_search_locations or ():
            found.setdefault(point.name, Path(place) / point.attr)
    return found


def installed_bundle(name: Path | str) -> Path | None:
    """The bundle installed as ``name``; None where there is none, or that can be no name."""
    if isinstance(name, Path) or not _NAME.fullmatch(name):
        return None
    if name == DEFAULT:  # without a look at every package that is installed
        return DEFAULT_BUNDLE
    return bundles().get(name)
