"""The tables of research/languages.md, made of the stored figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["BEGIN", "END", "tables", "with_tables"]

BEGIN = (
    "<!-- tables: made by research/studies/languages.py of research/results/languages.json; "
    "do not edit -->"
)
END = "<!-- end of tables -->"

_COLUMNS = {
    "xquad": "question, passage",
    "xquad_to_en": "question, English passage",
    "manual": "title, page",
    "pages_to_en": "page, English page",
    "tatoeba_to_en": "sentence, English sentence",
    "xsid": "intent",
}
_NAMES = {
    "bm25": "BM25",
    "random": "drawn",
    "random_calibrated": "drawn, calibrated",
    "mlm": "MLM",
    "auto_mlm": "Auto-MLM",
    "auto_mlm_calibrated": "Auto-MLM, calibrated",
    "ccp": "CCP",
    "ccp_calibrated": "CCP, calibrated",
    "ccp_rotated": "and rotated",
    "bundle": "CCP's bundle",
}
_OURS, _BESIDE = "ccp_calibrated", {"bm25": "BM25", "random": "drawn"}

Tests = Mapping[str, Mapping[str, Any]]


def tables(found: Mapping[str, Any]) -> str:
    """Means over the languages of every test and system, then every language."""
    return f"{_means(found['tests'])}\n{_languages(found['tests'], found['languages'])}"


def with_tables(page: str, found: Mapping[str, Any]) -> str:
    """The page with its tables written anew.

    Raises:
        ValueError: the page has no place for them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no lines {BEGIN!r} and {END!r}; expected both")
    return f"{before}{BEGIN}\n\n{tables(found)}\n{END}{after}"


def _means(tests: Tests) -> str:
    rows = [
        _row(["mean over the languages", "languages", *_NAMES.values()]),
        _line(len(_NAMES) + 2),
    ]
    for name, languages in tests.items():
        if not languages:
            continue
        cells = [f"`{name}`", str(len(languages))]
        for system in _NAMES:
            own = [one["systems"][system][0] for one in languages.values() if _has(one, system)]
            cells.append(_figure(float(np.mean(own))) if own else "-")
        rows.append(_row(cells))
    return "".join(rows)


def _languages(tests: Tests, languages: Sequence[str]) -> str:
    rows = [_row(["language", *_COLUMNS.values()]), _line(len(_COLUMNS) + 1)]
    for language in languages:
        cells = [_cell(tests.get(name, {}).get(language)) for name in _COLUMNS]
        rows.append(_row([language, *cells]))
    return "".join(rows)


def _cell(test: Mapping[str, Any] | None) -> str:
    if test is None:
        return "-"
    mean, low, high = test["systems"][_OURS]
    beside = (f"{told} {_figure(test['systems'][name][0])}" for name, told in _BESIDE.items())
    return f"{_figure(mean)} [{_figure(low)}, {_figure(high)}]<br>{', '.join(beside)}"


def _has(test: Mapping[str, Any], system: str) -> bool:
    return system in test["systems"]


def _figure(value: float) -> str:
    """.123"""
    return f"{value:.3f}".replace("0.", ".", 1)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _line(columns: int) -> str:
    return f"|{'---|' * columns}\n"
