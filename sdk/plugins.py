"""Parts that other packages add to the SDK, found through entry points.

A teacher needs torch and a corpus of many files needs pyarrow: neither is in the base install. What
uses them registers a function under a name in an entry-point group, and the SDK loads it when an
option asks for it, and not before.
"""

from __future__ import annotations

from typing import Any

from pocketquery.sdk.errors import MissingExtraError

__all__ = ["load_plugin"]


def load_plugin(group: str, name: str, extra: str) -> Any:
    """The function that is registered as ``name`` in the entry-point ``group``. ::

        open_teacher = load_plugin("pocketquery.document_encoders", "teacher", "export")

    Args:
        group: of entry points.
        name: in the group.
        extra: that brings what the function needs, or a package's folder in the checkout.

    Raises:
        MissingExtraError: nothing is registered, or a package that it needs is not installed.
    """
    from importlib.metadata import entry_points  # here: most commands ask for no plug-in

    for point in entry_points(group=group, name=name):
        try:
            return point.load()
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package != "pocketquery":
                raise MissingExtraError.of(package, extra) from error
    there = ", ".join(sorted(point.name for point in entry_points(group=group))) or "nothing"
    raise MissingExtraError(
        f"no installed package has {name!r} in the entry-point group {group!r} (it has: {there}); "
        f"install it with: {MissingExtraError.remedy(extra)}"
    )
