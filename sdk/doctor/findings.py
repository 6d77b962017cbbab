"""The doctor's findings: each with its severity and its remedy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pocketquery.sdk.errors import MissingExtraError, PocketQueryError

__all__ = ["Finding", "Report", "Severity", "guarded"]


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    ABSENT = "absent"
    """Not there, and nothing that was asked for needs it."""
    WARNING = "warning"
    """Works, and may not do what is expected."""
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        area: "machine", "packages", "extras", "environment", "bundles", "index" or "state".
        name: what was checked.
        state: how it is.
        found: in a line, with figures and their units.
        remedy: what to do; empty where nothing is to be done.
        details: the same for machines, JSON values by name; times are in seconds.
    """

    area: str
    name: str
    state: Severity
    found: str
    remedy: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All findings, in the order in which they were made."""

    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing is broken."""
        return not self.count(Severity.BROKEN)

    def count(self, state: Severity) -> int:
        """How many findings are in ``state``."""
        return sum(finding.state is state for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "healthy": self.healthy,
            "broken": self.count(Severity.BROKEN),
            "warnings": self.count(Severity.WARNING),
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
        }

    def lines(self) -> Iterator[str]:
        """For people: a heading for each area, a line for each finding, its remedy below."""
        absent = [one for one in self.findings if (one.area, one.state) == ("extras", "absent")]
        names, remedy = ", ".join(one.name for one in absent), 'pip install "pocketquery[NAME]"'
        others = Finding("extras", "others", Severity.ABSENT, names, remedy)
        findings = [others if one in absent[:1] else one for one in self.findings]
        findings = [one for one in findings if one not in absent]
        area, width = "", max((len(finding.name) for finding in findings), default=0)
        for finding in findings:
            if finding.area != area:
                if area:
                    yield ""
                area = finding.area
                yield area
            shown = (
                finding.state.upper() if finding.state is Severity.BROKEN else str(finding.state)
            )
            yield f"  {shown:8} {finding.name:{width}}  {finding.found}".rstrip()
            if finding.remedy:
                yield f"  {'':8} {'':{width}}  do: {finding.remedy}"
        yield ""
        broken, warnings = self.count(Severity.BROKEN), self.count(Severity.WARNING)
        yield f"{broken} broken, {warnings} warnings" if broken or warnings else "all well"


def guarded(
    area: str, name: str, remedy: str, check: Callable[[], Finding | Iterable[Finding]]
) -> list[Finding]:
    """What ``check`` finds; where it raises, that is broken and ``remedy`` is what to do.

    A doctor looks at what is damaged in ways that nobody thought of, so every error is a finding;
    what was found before it is kept.
    """
    done: list[Finding] = []
    try:
        result = check()
        done.extend([result] if isinstance(result, Finding) else result)
    except MissingExtraError as error:
        message, remedy = str(error), str(error).partition("install it with: ")[2] or remedy
    except PocketQueryError as error:
        message = str(error)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    else:
        return done
    return [*done, Finding(area, name, Severity.BROKEN, " ".join(message.split()), remedy)]
