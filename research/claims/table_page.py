"""The table of research/claims.md: 25 claims, decided from the stored scores.

    python research/claims/table_page.py

writes it between its two marks, and prints one JSON object: how many claims are decided.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from backlog import Waiting, waiting
from starts import declared
from stored import PROFILE, Decision, decisions
from study import settings_of
from verdicts import ABSENT, FAILS, HOLDS, OPEN, Link

from pocketquery.sdk.files import write_atomic

__all__ = ["PAGE", "rows", "with_table"]

PAGE = Path(__file__).resolve().parents[1] / "claims.md"
_BEGIN = (
    "<!-- table: made by research/claims/table_page.py of research/reference/claims; "
    "do not edit -->"
)
_END = "<!-- end of the table -->"
_HEAD = (
    "| | the claim | verdict | link | effect | interval | seeds | steps here | the paper's |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def rows(decided: Iterable[Decision]) -> Iterator[str]:
    """One row of Markdown a claim."""
    left = list(waiting())
    for one in decided:
        link = _shown(one)
        cells = [one.id, one.text, _verdict(one), *_figures(link), _budget(one), _papers(one)]
        if one.verdict in (ABSENT, OPEN):
            cells[2] += f": {_why_open(one, left)}"
        yield f"| {' | '.join(cells)} |"


def with_table(page: str, decided: Iterable[Decision]) -> str:
    """The page with the table of some claims."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return before + "\n".join((_BEGIN, "", _HEAD, *rows(decided), "", _END)) + after


def _shown(one: Decision) -> Link | None:
    """The link that decides: one that fails, else one that is open, else that nearest its bound."""
    there = [link for link in one.links if link.estimate is not None]
    for verdict in (FAILS, OPEN):
        for link in there:
            if link.verdict == verdict:
                return link
    return min(there, key=_distance, default=None) if one.verdict == HOLDS else None


def _distance(link: Link) -> float:
    """From the bound, in widths of the interval."""
    found = link.estimate
    assert found is not None
    return abs(found.mean - link.bound) / max(found.high - found.low, 1e-9)


def _verdict(one: Decision) -> str:
    said = f"**{one.verdict}**" if one.is_decided else one.verdict
    differ = [f"{figure}: {other}" for figure, other in one.others.items() if other != one.verdict]
    return f"{said} ({'; '.join(differ)})" if differ else said


def _figures(link: Link | None) -> list[str]:
    if link is None or link.estimate is None:
        return ["", "", "", ""]
    found = link.estimate
    interval = f"[{found.low:+.3f}, {found.high:+.3f}]"
    return [link.text, f"{found.mean:+.3f}", interval, str(found.seeds)]


def _why_open(one: Decision, left: list[Waiting]) -> str:
    own = [entry for entry in left if one.id in entry.entry["claims"]]
    if not own:
        return "the bound lies within the interval of all declared seeds"
    hours = round(sum(entry.hours for entry in own), 1)
    return f"{hours} core-hours, place {own[0].place} of the queue, `--claims {one.id}`"


def _budget(one: Decision) -> str:
    settings: Mapping[str, Mapping[str, int]] = settings_of(one.study, PROFILE)
    train = {**settings["train"], **settings.get("align", {})}
    return f"{train['steps']:,} of {train['batch_size']}"


def _papers(one: Decision) -> str:
    return str(declared("papers")[one.study])


def main() -> int:
    decided = list(decisions())
    write_atomic(PAGE, with_table(PAGE.read_text("utf-8"), decided))
    print(json.dumps(Counter(one.verdict for one in decided)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
