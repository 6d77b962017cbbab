"""A folder of texts as groups of documents, as ``pocketquery index --documents`` reads it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from pocketquery.sdk.errors import CorpusError
from pocketquery.sdk.text_folders.listing import SUFFIXES
from pocketquery.sdk.text_folders.text_folder import read_folder
from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.readers.document_groups import document_group
from pocketquery.server.corpus.text import split_sentences

__all__ = ["read_text_folder"]

_MOST_NAMED = 5  # of the files that were not read


def read_text_folder(folder: Path | str, *, lang: str = "") -> Iterator[Group]:
    """Yield each section of each text file below ``folder``, in the order of their paths.

    Files are those of
    :func:`pocketquery.sdk.text_folders.text_folder.read_folder`. A group has the file's title with
    the section's heading, then its sentences; its id is the first passage's. Files
    that are not read are told of in one warning at the end.

    Args:
        folder: the folder.
        lang: of all of them.

    Raises:
        CorpusError: no file there has a text.
    """
    has_text, skipped = False, list[str]()
    passages = read_folder(folder, on_skipped=lambda one: skipped.append(f"{one.name} ({one.why})"))
    for (_, title), section in groupby(
        passages, lambda one: (one.metadata["path"], one.metadata["title"])
    ):
        has_text = True
        parts = list(section)
        sentences = [sentence for one in parts for sentence in split_sentences(one.text)]
        yield document_group(parts[0].id, title, sentences, lang)
    if skipped:
        named = "; ".join(
            [*skipped[:_MOST_NAMED], *(["..."] if len(skipped) > _MOST_NAMED else [])]
        )
        warnings.warn(f"{folder}: left out {len(skipped)} of its files: {named}", stacklevel=2)
    if not has_text:
        suffixes = ", ".join(suffix for suffix in SUFFIXES if suffix)
        raise CorpusError(
            f"{folder}: found neither a text store nor a file with text in it; expected a store "
            f"(pocketquery mine store), or files that end in {suffixes}"
        )
