"""Packages whose public names are imported on first use (PEP 562).

A package's ``__init__`` lists its names once; importing the package then costs nothing, so the
command line can show every command's help without loading torch. And :func:`log`, which imports
``logging`` as little: it takes 5 ms, and who has not imported it hears nothing.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Literal

__all__ = ["collection_paused", "lazy_names", "log"]


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package.

    Args:
        package: the package's ``__name__``.
        homes: for each of its modules, the public names that live there.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with collection_paused():
            value: object = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted([*home, *(name for name in vars(sys.modules[package]) if name[:2] == "__")])

    return get, names


@contextmanager
def collection_paused() -> Iterator[None]:
    """Within, no garbage is looked for.

    Importing numpy and opening an encoder make many objects that stay and hardly any garbage; to
    look through them again and again takes 2 % of a first vector's time. What other threads leave
    meanwhile is found afterwards.
    """
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()


def log(level: Literal["debug", "info", "warning"], message: str, *values: object) -> None:
    """Log ``message % values`` to the logger ``pocketquery``, which has a NullHandler alone. Texts,
    queries and metadata are never among the values."""
    logging = sys.modules.get("logging")
    if logging is None or not hasattr(
        logging, "NullHandler"
    ):  # or another thread is importing it just now
        return
    logger = logging.getLogger("pocketquery")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    getattr(logger, level)(message, *values)
