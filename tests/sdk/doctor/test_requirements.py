from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.doctor.findings import Severity
from pocketquery.sdk.doctor.requirements import Requirement, check_packages, declared, fits

ROOT = Path(__file__).parents[3]
LINES = [
    "numpy>=2.0",
    "onnxruntime>=1.20",
    'cryptography>=42; extra == "sign"',
    "flwr[simulation]<1.43,>=1.41; extra == 'client'",
    'pocketquery[client,sign]; extra == "all"',
    'pocketquery[all]; extra == "client"',  # in a circle
]


def test_extras_within_extras_are_resolved() -> None:
    wanted = declared(LINES)
    assert wanted[""] == (Requirement("numpy", ">=2.0"), Requirement("onnxruntime", ">=1.20"))
    assert {one.name for one in wanted["all"]} == {"flwr", "cryptography"}
    assert wanted["client"][0] == Requirement("flwr", "<1.43,>=1.41", ("simulation",))


def test_every_line_of_ours_is_understood() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [f"{line}; extra == '{extra}'" for extra, some in extras.items() for line in some]
    wanted = declared([*project["dependencies"], *lines])
    assert set(wanted) == {"", *extras}
    for requirements in wanted.values():
        for requirement in requirements:
            assert requirement.name != "pocketquery"
            # No range of ours excludes everything and none is malformed.
            assert any(fits(v, requirement.range) for v in _near(requirement.range)), requirement


def _near(allowed: str) -> list[str]:
    bounds = [part.lstrip("<>=~!") for part in allowed.split(",")]
    return ["0", "9999", *bounds, *(f"{bound}.1" for bound in bounds)]


@pytest.mark.parametrize(
    ("version", "allowed", "expected"),
    [
        ("2.4.6", ">=2.0", True),
        ("2", ">=2.0", True),
        ("1.26.4", ">=2.0", False),
        ("1.43.0", ">=1.41,<1.43", False),
        ("1.42.9", ">=1.41,<1.43", True),
        ("2.13.0+cpu", ">=2.6", True),
        ("0.1.0", "==0.1.0", True),
        ("0.1", "==0.1.0", True),
        ("0.1.1", "!=0.1.0", True),
        ("1.10", ">1.9", True),
        ("1.4.9", "~=1.4.2", True),
        ("1.5", "~=1.4.2", False),
        ("1.4.1", "~=1.4.2", False),
        ("1.0", "", True),
        ("1.0", "nonsense", False),
    ],
)
def test_ranges(version: str, allowed: str, expected: bool) -> None:
    assert fits(version, allowed) is expected


RELEASES = st.lists(st.integers(0, 40), min_size=1, max_size=4).map(lambda n: ".".join(map(str, n)))


@given(RELEASES, RELEASES, st.sampled_from([">=", "<=", "==", "!=", ">", "<"]))
def test_ranges_are_those_of_packaging(version: str, bound: str, sign: str) -> None:
    specifiers = pytest.importorskip("packaging.specifiers")
    allowed = f"{sign}{bound}"
    assert fits(version, allowed) is specifiers.SpecifierSet(allowed).contains(version)


def test_what_is_missing_or_out_of_its_range() -> None:
    have = {"numpy": "1.26", "flwr": "1.50", "cryptography": None}
    found = {f.name: f for f in check_packages(declared(LINES), ["sign"], have.get)}
    assert {name: one.state for name, one in found.items()} == {
        "numpy": Severity.BROKEN,  # too old
        "onnxruntime": Severity.BROKEN,  # not there
        "sign": Severity.BROKEN,  # not there, and was asked for
        "client": Severity.ABSENT,
        "all": Severity.ABSENT,
    }
    assert found["numpy"].remedy == 'pip install "numpy>=2.0"'
    assert found["sign"].remedy == 'pip install "pocketquery[sign]"'
    have["cryptography"] = "42.0"
    found = {f.name: f for f in check_packages(declared(LINES), (), have.get)}
    assert found["sign"].state is Severity.OK
    assert found["client"].state is Severity.BROKEN
    assert "flwr 1.50 (expected <1.43,>=1.41)" in found["client"].found
