"""A WordNet of a few synsets, in the database's own format (wndb(5WN))."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_wordnet"]

_LICENCE = "  1 This software and database is being provided: WordNet 3.0 Copyright 2006  \n"
_LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
_FILE_NUMBERS = {"noun": 6, "verb": 38, "adj": 0, "adv": 2}
SYNSETS: dict[str, list[tuple[str, ...]]] = {
    "noun": [
        ("car", "automobile", "motor_car"),
        ("car", "railcar"),
        ("bank", "depository"),
        ("a", "angstrom"),
    ],
    "verb": [("buy", "purchase")],
    "adj": [("large", "big")],
    "adv": [("quickly", "rapidly")],
}


def write_wordnet(folder: Path) -> None:
    """Write index, data and exception files of :data:`SYNSETS`, and the lexicographers' names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = "".join(f"{number:02d}\tfile.{number}\t1\n" for number in range(45))
    (folder / "lexnames").write_text(names)
    for part, synsets in SYNSETS.items():
        offsets: dict[str, list[int]] = {}
        data = _LICENCE
        for words in synsets:
            for word in words:
                offsets.setdefault(word, []).append(len(data))
            listed = " ".join(f"{word} 0" for word in words)
            frames = "01 + 08 00 " if part == "verb" else ""
            data += (
                f"{len(data):08d} {_FILE_NUMBERS[part]:02d} {_LETTERS[part]} {len(words):02x} "
                f"{listed} 000 {frames}| made up  \n"
            )
        index = "".join(
            f"{word} {_LETTERS[part]} {len(found)} 0 {len(found)} 0 "
            + " ".join(f"{offset:08d}" for offset in found)
            + "  \n"
            for word, found in sorted(offsets.items())
        )
        (folder / f"data.{part}").write_text(data)
        (folder / f"index.{part}").write_text(_LICENCE + index)
        (folder / f"{part}.exc").write_text("bought buy\n" if part == "verb" else "")
