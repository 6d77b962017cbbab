"""How a gateway finds the checker that its configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from pocketquery.sdk.errors import InvalidInputError, MissingExtraError
from pocketquery_gateway.attestation import interface, load_attestation
from pocketquery_gateway.settings import GatewaySettings

HERE = "attestation.test_interface"  # as one would write it in a configuration


class Checker:
    def __init__(self, app_id: str = "") -> None:
        self.app_id = app_id

    def check(self, binding: bytes, evidence: Mapping[str, Any]) -> None: ...


def no_checker() -> int:
    return 3


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in is installed under the name "mine"."""
    group = "pocketquery.attestation"
    points = EntryPoints(
        [
            EntryPoint("mine", f"{HERE}:Checker", group),
            EntryPoint("removed", "no_such_package:Checker", group),
            EntryPoint("app-attest", "no_such_package:Checker", group),
        ]
    )
    monkeypatch.setattr(interface, "entry_points", lambda group: points.select(group=group))


@pytest.mark.parametrize("name", ["mine", f"{HERE}:Checker"])
def test_a_plug_in_and_a_function_get_the_options(plugin: None, name: str) -> None:
    checker = load_attestation(name, {"app-id": "org.example.app"})
    assert type(checker).__name__ == "Checker"
    assert vars(checker) == {"app_id": "org.example.app"}


@pytest.mark.parametrize("name", ["app-attest", "play-integrity"])
def test_a_missing_package_is_named(plugin: None, name: str) -> None:
    with pytest.raises(MissingExtraError, match="pip install pocketquery-attestation"):
        load_attestation(name)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "other",
            {},
            "'other', expected .* an installed plug-in: app-attest, mine",
        ),
        ("removed", {}, "'removed', a plug-in that cannot be loaded: No module named"),
        ("no_such_module:f", {}, "'no_such_module:f' cannot be loaded"),
        (":f", {}, "':f' cannot be loaded, expected module:function"),
        (f"{HERE}:no_such", {}, "cannot be loaded"),
        (f"{HERE}:no_checker", {}, "returns 3, expected a method check"),
        ("mine", {"bundle": 3}, r"set up with the attestation-options \['bundle'\]"),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    plugin: None, name: str, options: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        load_attestation(name, options)


def test_the_options_are_a_table_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(
        'folder = "g"\nattestation = "app-attest"\n[attestation-options]\napp-id = "A.b"\n'
    )
    assert GatewaySettings.read(file).attestation_options == {"app-id": "A.b"}
    file.write_text('folder = "g"\nattestation-options = 3\n')
    with pytest.raises(InvalidInputError, match=r"attestation.options is 3, expected a table"):
        GatewaySettings.read(file)
