"""Docstrings on the site: ``:class:`Index``` and its like are shown as code, without the role."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([^`]+)`")


def without_roles(text: str) -> str:
    """The text with each role's target alone, as code."""
    return ROLE.sub(r"`\1`", text)


class DocstringRoles(griffe.Extension):  # type: ignore[misc,name-defined,unused-ignore]
    """What mkdocstrings loads: changes each docstring once it is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Griffe: an object of the sources is there, with its docstring."""
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = without_roles(obj.docstring.value)
