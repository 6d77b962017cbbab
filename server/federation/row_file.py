"""The rows of a federation's rounds on disk, beside the journal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.files import write_atomic
from pocketquery.server.federation.round_row import RoundRow
from pocketquery.server.federation.rounds.journal import Journal

__all__ = ["RowFile"]


class RowFile:
    """Rows by round, in one JSON file that is replaced as a whole.

    Args:
        path: the file; made with the first row.

    Raises:
        CorruptArtifactError: what is there is no such file.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._rows: dict[int, RoundRow] = {}
        if self.path.is_file():
            self._rows = {row.round: row for row in _read(self.path)}

    def keep(self, row: RoundRow) -> None:
        """Keep ``row`` in the place of what was kept of its round."""
        self._rows[row.round] = row
        body = [one.to_dict() for one in self.rows()]
        write_atomic(self.path, json.dumps({"rounds": body}, indent=1) + "\n")

    def of(self, number: int) -> RoundRow | None:
        """The row of a round; None where none was kept."""
        return self._rows.get(number)

    def rows(self) -> list[RoundRow]:
        """The rows of all rounds that were kept, in order."""
        return [self._rows[number] for number in sorted(self._rows)]

    def finished(self, journal: Journal) -> list[RoundRow]:
        """The rows of all rounds that are over, in order.

        A round that was skipped just before a kill is over in the journal alone.
        """
        skipped = {report.round: report.skipped for report in journal.reports()}
        rows = []
        for row in self.rows():
            if row.version is None and skipped.get(row.round):
                row = replace(row, skipped=skipped[row.round], version=row.base_version)
            if row.version is not None:
                rows.append(row)
        return rows


def _read(path: Path) -> list[RoundRow]:
    try:
        return [RoundRow.from_dict(one) for one in json.loads(path.read_bytes())["rounds"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptArtifactError(
            f"{path} is not a list of rounds ({error}); remove it: the releases and the journal "
            "are whole without it"
        ) from error
