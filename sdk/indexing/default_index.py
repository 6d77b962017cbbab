"""The index that ``pocketquery index FOLDER`` builds and ``pocketquery search`` finds, where
neither names a place.

It is ``$POCKETQUERY_INDEX`` where that is set, else ``pocketquery/index`` in the data folder of the
user: ``$XDG_DATA_HOME`` or ``~/.local/share``, on macOS ``~/Library/Application Support``, on
Windows ``%LOCALAPPDATA%``. There is one. The file ``index.source`` beside it names the folder of
texts it was built of, and an index of another folder never takes its place.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from pocketquery.sdk.bundle.installed import BUNDLE_VARIABLE, DEFAULT, DEFAULT_BUNDLE, bundles
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError, PocketQueryError
from pocketquery.sdk.files import checked_path, make_folder, real_path, write_atomic
from pocketquery.sdk.folders import is_present

__all__ = [
    "INDEX_VARIABLE",
    "bundle_for",
    "claim_default_index",
    "default_index",
    "folder_of_own_index",
    "searched_index",
]

INDEX_VARIABLE = "POCKETQUERY_INDEX"
"""Of the environment: the index that is built and searched where none is named."""

_DATA_FOLDERS = {
    "darwin": ("", "~/Library/Application Support"),
    "win32": ("LOCALAPPDATA", "~/AppData/Local"),
}
_OTHER_SYSTEMS = ("XDG_DATA_HOME", "~/.local/share")


def default_index() -> Path:
    """Where the default index is, or would be."""
    if named := os.environ.get(INDEX_VARIABLE):
        return Path(named)
    variable, usual = _DATA_FOLDERS.get(sys.platform, _OTHER_SYSTEMS)
    data = Path(os.environ.get(variable, "") if variable else "")
    return (data if data.is_absolute() else Path(usual).expanduser()) / "pocketquery" / "index"


def searched_index(named: Path | str | None) -> Path:
    """The index that a command searches: the one that is named, else the default one.

    Raises:
        ArtifactNotFoundError: nobody has built the default one yet.
    """
    if named is not None:
        return Path(named)
    place = default_index()
    if not is_present(place):
        raise ArtifactNotFoundError(
            f"there is no index at {place} yet; build it with: pocketquery index FOLDER. Or name "
            "another index with --index"
        )
    return place


def bundle_for(place: Path, named: str | None) -> str | None:
    """The bundle to search the index at ``place`` with: the one that is named, else the first
    installed one of the index's space, the built-in one before others. None: the usual one."""
    if named or os.environ.get(BUNDLE_VARIABLE):
        return named
    from pocketquery.sdk.bundle.bundle import Bundle  # numpy, which the doctor does without
    from pocketquery.sdk.index.info import read_info

    with contextlib.suppress(PocketQueryError):  # whoever opens it says what is wrong
        space_id = read_info(place).space_id
        if Bundle.open(DEFAULT_BUNDLE).manifest.space.id == space_id:
            return DEFAULT  # before others are looked for, which takes tens of milliseconds
        for name, folder in bundles().items():
            with contextlib.suppress(PocketQueryError):  # one that nobody asked for
                if Bundle.open(folder).manifest.space.id == space_id:
                    return name
    return None


def folder_of_own_index() -> str | None:
    """The folder of texts that the default index was built of, as this user's own data folder
    says; None where nothing was built there, or ``$POCKETQUERY_INDEX`` names another place."""
    return None if os.environ.get(INDEX_VARIABLE) else _noted_folder(default_index())


def _noted_folder(place: Path) -> str | None:
    note = _note(place)
    return note.read_text("utf-8").removesuffix("\n") if note.is_file() else None


def _note(place: Path) -> Path:
    return place.with_name(f"{place.name}.source")


def claim_default_index(folder: str) -> Path:
    """Where to build the default index of the texts in ``folder``; notes that it is of them.

    Raises:
        ArtifactNotFoundError: there is no such folder.
        InvalidInputError: there is a default index of another folder, or of nobody knows what.
        WriteError: the user's data folder cannot be written.
    """
    source = str(real_path(checked_path(folder, "the folder of texts")))
    if not Path(source).exists():
        raise ArtifactNotFoundError(f"{source}: found nothing there, expected a folder of texts")
    place = default_index()
    known = _noted_folder(place) or ""
    if is_present(place) and known != source:
        raise InvalidInputError(
            f"the index at {place} is of {known or 'an unknown folder'}, not of {source}; it would "
            "be replaced. Name another place with --output, or remove it"
        )
    if known != source:
        make_folder(place.parent, 0o700)
        write_atomic(_note(place), source + "\n", mode=0o600)
    return place
