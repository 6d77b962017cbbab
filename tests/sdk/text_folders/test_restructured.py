from __future__ import annotations

from pathlib import Path

import pytest

from pocketquery import sdk
from tests.sdk.text_folders.reading import passages, seen, write

RST = """:orphan:
:tocdepth: 2

.. _remove:

=========
Uninstall
=========

.. Here stands
   a comment.

.. note:: It asks first.

.. warning::
   :class: loud

   Nothing comes back.

.. function:: remove(name)

   Remove it [1]_, as :func:`~os.remove` and ``os.unlink(*path)`` do.

.. |pip| replace:: pip

.. toctree::
   :maxdepth: 2

   other/page

.. image:: picture.png
   :alt: a picture

.. versionadded:: 2.0

.. [1] At once.

:ref:`More <more>` on *that* by `us <https://a.org>`_::

    def f():
        return *x

:param name: what to **remove**
"""


def test_markup_is_no_text(tmp_path: Path) -> None:
    write(tmp_path, "Uninstall.rst", RST)
    ((identifier, title, text),) = passages(tmp_path)
    assert (identifier, title) == ("Uninstall.rst#uninstall", "Uninstall")
    assert text.split("\n") == [
        "It asks first.",
        "Nothing comes back.",
        "remove(name)",
        "Remove it [1], as os.remove and os.unlink(*path) do.",
        "a picture",
        "New in version 2.0",
        "[1] At once.",
        "More on that by us:",
        "def f():",
        "    return *x",
        "param name: what to remove",
    ]


def test_anchors_are_those_of_sphinx(tmp_path: Path) -> None:
    write(tmp_path, "a.rst", "Version 2.2.5\n-------------\n\nA.\n\nÜber `f_x`\n----------\n\nB.\n")
    assert [one.metadata["anchor"] for one in sdk.read_folder(tmp_path)] == [
        "version-2-2-5",
        "uber-f-x",
    ]


def test_rules_above_and_below_make_levels(tmp_path: Path) -> None:
    text = "======\nManual\n======\n\nUse\n===\n\nFirst\n-----\n\nOpen it.\n\nEnd\n===\n"
    write(tmp_path, "Manual.rst", text)
    assert [(title, text) for _, title, text in passages(tmp_path)] == [
        ("Manual: Use: First", "Open it."),
        ("Manual: End", "End"),
    ]


@pytest.mark.parametrize("name", ["a.rst", "a.txt"])
def test_a_tilde_rule_underlines_where_it_opens_no_code(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, "A\n~~~~~\n\nOne.\n\n``*``\n~~~~\n\nTwo.\n")
    assert [text for *_, text in passages(tmp_path)] == ["One.", "Two."]


def test_plain_text_is_to_the_letter(tmp_path: Path) -> None:
    text = "see *args, `x` <b>\n- [[a]] {{ b }}\n\n```\n# no heading\n```"
    assert seen(tmp_path, "a.txt", text) == (
        "see *args, `x` <b>\n- [[a]] {{ b }}\n```\n# no heading\n```"
    )
