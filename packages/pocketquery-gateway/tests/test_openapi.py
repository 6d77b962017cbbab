"""The description is of what is there, and whatever it allows is answered as it says."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from relay_kill_points import SECURE
from serve_gateway import Served, serving
from small_gateway import asked_for, opened, small_release

from pocketquery.client.gateway.signing import signed_headers
from pocketquery.client.private.messages import Stage
from pocketquery_gateway import app as app_module
from pocketquery_gateway.app import device_app

DESCRIPTION = json.loads(app_module.DESCRIPTION.read_text("utf-8"))
PARAMETERS = DESCRIPTION["components"]["parameters"]
ANY_REQUEST = {408, 421, 429, 431, 503}  # it comes too slowly, for another host, too often, ...
SIGNED = {400, 401, 403, 413}
FREE = {
    "requests-per-minute": 1e6,
    "address-requests-per-minute": 1e6,
    "registrations-per-hour": 1e6,
    "uploads-per-day": 1000,
}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DESCRIPTION["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_path_is_described_and_every_description_is_of_a_path(tmp_path: Path) -> None:
    with opened(tmp_path) as small:
        routes = {
            (route.path, method.lower())  # type: ignore[attr-defined]
            for route in device_app(small.gateway).routes
            for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
        }
        assert routes == {(path, method) for path, method, _ in operations()}
        assert small.client.get("/v1/openapi.json").json() == DESCRIPTION
        for method, path in (("GET", "/v1/nothing"), ("POST", "/v1/offer")):
            answer = small.client.request(method, path)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.status_code in (404, 405)


@pytest.mark.parametrize(
    ("path", "method", "operation"), [*operations()], ids=lambda value: str(value)[:30]
)
def test_the_problems_of_an_operation_are_those_of_its_kind(
    path: str, method: str, operation: dict[str, Any]
) -> None:
    names = {one["$ref"].rsplit("/", 1)[1] for one in operation.get("parameters", [])}
    expected = set(ANY_REQUEST)
    if {"ContentDigest", "SignatureInput", "Signature"} <= names:
        expected |= SIGNED
    if "Round" in names:
        expected |= {404, 409}
    if path.startswith("/v1/releases"):
        expected.add(404)
    if path == "/v1/challenge":
        expected.add(413)
    if method == "put" and "Round" in names and "requestBody" in operation:
        expected.add(422)
    problem = {"$ref": "#/components/responses/Problem"}
    answers = operation["responses"]
    assert {int(status) for status, one in answers.items() if one == problem} == expected
    assert any(status.startswith("2") for status in answers)
    assert names >= {f"{one.capitalize()}" for one in re.findall(r"{(\w+)}", path)}


def test_every_status_that_the_code_raises_is_described() -> None:
    folder = app_module.DESCRIPTION.parent
    sources = "".join(file.read_text("utf-8") for file in folder.rglob("*.py"))
    raised = {int(status) for status in re.findall(r"Problem\(\s*(\d{3})", sources)}
    assert len(raised) > 8
    assert raised <= {
        int(one) for _, _, operation in operations() for one in operation["responses"]
    }


def test_the_limits_are_those_of_the_code() -> None:
    schema = {name: one["schema"] for name, one in PARAMETERS.items()}
    assert schema["Round"]["maximum"] == 10**app_module._LONGEST_ROUND - 1
    assert (schema["Stage"]["minimum"], schema["Stage"]["maximum"]) == (1, max(Stage))
    made = signed_headers(
        bytes(32), "PUT", "gateway.test", "/v1/device", b"{}", created=1, nonce=bytes(16)
    )
    for header in ("Content-Digest", "Signature-Input", "Signature"):
        pattern = schema[header.replace("-", "")]["pattern"]
        assert re.search(pattern, made[header.lower()]), header


@pytest.mark.slow
@pytest.mark.parametrize("private", [False, True])
def test_nothing_that_the_description_allows_breaks_it(tmp_path: Path, private: bool) -> None:
    """Each operation, signed by a registered device, signed by a stranger, and not signed."""
    schemathesis = pytest.importorskip("schemathesis")
    with serving(tmp_path, **FREE) as served:
        asked = asked_for(small_release(), wanted=20)
        served.control._begin(replace(asked, secure=SECURE if private else None))
        time.sleep(1.1)  # what is signed before the gateway's start is refused
        schema = schemathesis.openapi.from_dict(DESCRIPTION)
        schema.config.update(base_url=served.url)
        described = [one.ok() for one in schema.get_all_operations()]
        assert len(described) == 12
        seen: set[int] = set()
        for operation in described:
            fuzz(operation, served, seen)
        assert served.process.poll() is None
        # Not 422, which only luck makes up: test_gateway.py and test_private_messages.py
        # ask for it.
        assert seen >= {200, 201, 204, 401, 403, 404, 409}
        assert served.stop() == 0


def fuzz(operation: Any, served: Served, seen: set[int]) -> None:
    """Many requests of one operation."""
    import requests
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    key = bytes(range(32))

    class Signed(requests.auth.AuthBase):
        """Signs what is sent, in the place of the signature that was made up."""

        def __init__(self, key: bytes) -> None:
            self._key = key

        def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
            body: Any = request.body or b""
            parts = urlsplit(str(request.url))
            request.headers.pop("Pocketquery-Figures", None)
            request.headers.update(
                signed_headers(
                    self._key,
                    str(request.method),
                    parts.netloc,
                    parts.path,
                    body.encode() if isinstance(body, str) else body,
                    created=int(time.time()),
                    nonce=os.urandom(16),
                )
            )
            return request

    @hypothesis_settings(
        max_examples=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(),
        who=st.sampled_from(["registered", "stranger", "nobody"]),
        now=st.booleans(),
    )
    def run(case: Any, who: str, now: bool) -> None:
        if now and "round" in case.path_parameters:
            case.path_parameters["round"] = 0  # the one that is open
        with requests.Session() as session:
            if who != "nobody":
                session.auth = Signed(key if who == "registered" else os.urandom(32))
            if who == "registered" and operation.label != "PUT /v1/device":
                session.put(f"{served.url}/v1/device", data=b"{}", auth=Signed(key))
            response = case.call(session=session)
        assert response.status_code < 500, response.text
        seen.add(response.status_code)
        case.validate_response(
            response,
            checks=[
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
        )

    run()
