"""The packages that pocketquery declares, base and extras, beside those that are installed.

The declarations are read from the installed metadata, so that they are those of the version that
runs. Only what ours use is understood: names, extras, comparisons of release numbers, and the
marker ``extra == "..."``.
"""

from __future__ import annotations

import itertools
import operator
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version

from pocketquery.sdk.doctor.findings import Finding, Severity

__all__ = ["Requirement", "check_import", "check_packages", "declared", "fits", "installed_version"]

_OWN_DISTRIBUTION = "pocketquery"
_MOST_LISTED = 4  # packages of an extra, for people
_LINE = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[(?P<extras>[^\]]*)\])?\s*\(?(?P<range>[^;)]*)\)?\s*"
    r"(?:;(?P<marker>.*))?$"
)
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_COMPARISONS: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class Requirement:
    """One declared package: its name, its range ("" for any) and, of ours, the extras it names."""

    name: str
    range: str
    extras: tuple[str, ...] = ()


def declared(lines: Iterable[str] | None = None) -> dict[str, tuple[Requirement, ...]]:
    """The requirements by extra, "" for the base install; extras within extras are resolved.

    Args:
        lines: as the metadata's ``Requires-Dist`` has them; None: those of the installed version.
    """
    by_extra: dict[str, list[Requirement]] = {"": []}
    for line in requires(_OWN_DISTRIBUTION) or [] if lines is None else lines:
        match = _LINE.match(line)
        if match is None:
            continue
        extra = _EXTRA.search(match["marker"] or "")
        inner = tuple(part.strip() for part in (match["extras"] or "").split(",") if part.strip())
        requirement = Requirement(match["name"], match["range"].replace(" ", ""), inner)
        by_extra.setdefault(extra[1] if extra else "", []).append(requirement)
    return {extra: tuple(_resolved(extra, by_extra, set())) for extra in by_extra}


def _resolved(
    extra: str, by_extra: Mapping[str, list[Requirement]], seen: set[str]
) -> Iterator[Requirement]:
    if extra in seen:
        return
    seen.add(extra)
    for requirement in by_extra.get(extra, []):
        if requirement.name.lower() != _OWN_DISTRIBUTION:
            yield requirement
        for inner in requirement.extras if requirement.name.lower() == _OWN_DISTRIBUTION else ():
            yield from _resolved(inner, by_extra, seen)


def fits(installed: str, allowed: str) -> bool:
    """Whether the version ``installed`` is in the range ``allowed``, say ">=1.2,<2"; "" is any."""
    for part in filter(None, allowed.split(",")):
        match = re.fullmatch(r"(>=|<=|==|!=|~=|>|<)(.*)", part)
        if match is None:
            return False
        sign, bound = match[1], _numbers(match[2])
        if sign == "~=":
            if (
                not fits(installed, f">={match[2]}")
                or _numbers(installed)[: len(bound) - 1] != (bound[:-1])
            ):
                return False
            continue
        have = _numbers(installed)
        width = max(len(have), len(bound))
        if not _COMPARISONS[sign](_padded(have, width), _padded(bound, width)):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    release = re.match(r"\d+(?:\.\d+)*", text.strip())
    return tuple(map(int, release[0].split("."))) if release else ()


def _padded(numbers: tuple[int, ...], width: int) -> tuple[int, ...]:
    return numbers + (0,) * (width - len(numbers))


def installed_version(name: str) -> str | None:
    """The version of the package ``name``, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_import(name: str) -> Finding:
    """Whether the package can be imported: its libraries may be of another system or damaged.

    Raises:
        ImportError: it cannot.
    """
    before = name in sys.modules  # to be timed no more
    begin = time.perf_counter()
    import_module(name)
    took = time.perf_counter() - begin
    found = "loaded before" if before else f"in {took * 1e3:.0f} ms"
    return Finding("packages", f"import {name}", Severity.OK, found, "", {"seconds": took})


def check_packages(
    requirements: Mapping[str, tuple[Requirement, ...]],
    needed: Iterable[str] = (),
    versions: Callable[[str], str | None] = installed_version,
) -> Iterator[Finding]:
    """A finding for each package of the base install, and one for each extra.

    Args:
        requirements: what :func:`declared` says.
        needed: extras that must be there; the others may be absent.
        versions: the installed version of a package, or None.
    """
    for requirement in requirements.get("", ()):
        have = versions(requirement.name)
        remedy = f'pip install "{requirement.name}{requirement.range}"'
        details = {"version": have, "range": requirement.range}
        if have is None:
            found, state = f"not installed, expected {requirement.range}", Severity.BROKEN
        elif not fits(have, requirement.range):
            found, state = f"{have}, expected {requirement.range}", Severity.BROKEN
        else:
            found, state, remedy = f"{have} ({requirement.range})", Severity.OK, ""
        yield Finding("packages", requirement.name, state, found, remedy, details)
    needed = list(needed)
    for extra in sorted(filter(None, requirements)):
        yield _extra(extra, requirements[extra], extra in needed, versions)
    for extra in itertools.filterfalse(requirements.__contains__, needed):
        known = ", ".join(sorted(filter(None, requirements)))
        yield Finding(
            "extras", extra, Severity.BROKEN, "there is no such extra", f"name one of: {known}"
        )


def _extra(
    extra: str,
    requirements: tuple[Requirement, ...],
    needed: bool,
    versions: Callable[[str], str | None],
) -> Finding:
    have = {requirement.name: versions(requirement.name) for requirement in requirements}
    lacking = [name for name, installed in have.items() if installed is None]
    wrong = [
        f"{requirement.name} {installed} (expected {requirement.range})"
        for requirement in requirements
        if (installed := have[requirement.name]) is not None
        and not fits(installed, requirement.range)
    ]
    remedy = f'pip install "pocketquery[{extra}]"'
    details = {"versions": have, "lacking": lacking, "out_of_range": wrong}
    if lacking:  # packages of other extras may be there; that alone is no fault
        state = Severity.BROKEN if needed else Severity.ABSENT
        found = f"not installed: lacks {', '.join(lacking)}"
        return Finding("extras", extra, state, found, remedy, details)
    if wrong:
        return Finding("extras", extra, Severity.BROKEN, "; ".join(wrong), remedy, details)
    found = ", ".join(f"{name} {installed}" for name, installed in have.items())
    found = found if len(have) <= _MOST_LISTED else f"{len(have)} packages, all in their ranges"
    return Finding("extras", extra, Severity.OK, found, "", details)
