"""What the package's entry points name, set up from the options of a gateway's configuration."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_attestation import AppAttest, PlayIntegrity
from pocketquery_gateway.attestation import load_attestation

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
PLUGINS: dict[str, str] = PROJECT["project"]["entry-points"]["pocketquery.attestation"]
CERTIFICATES = ["ab" * 32]


def ask_google(token: str) -> Mapping[str, Any]:
    return {}


def test_every_plug_in_can_be_loaded() -> None:
    made = {n: EntryPoint(n, v, "pocketquery.attestation").load() for n, v in PLUGINS.items()}
    assert made["app-attest"] is AppAttest
    play = made["play-integrity"](
        decode=f"{__name__}:ask_google", package_name="org.example.app", certificates=CERTIFICATES
    )
    assert isinstance(play, PlayIntegrity)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("app-attest", {}, "missing 2 required"),
        ("app-attest", {"app-id": "A.b", "root": "no PEM"}, "no certificate in PEM"),
        ("app-attest", {"app-id": 3, "root": "no PEM"}, "no certificate in PEM"),
        ("play-integrity", {"package-name": "a", "certificates": CERTIFICATES}, "decode"),
        (
            "play-integrity",
            {"package-name": "a", "certificates": CERTIFICATES, "decode": "no_such:f"},
            "'no_such:f' cannot be loaded",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(
    name: str, options: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        load_attestation(PLUGINS[name], options)
