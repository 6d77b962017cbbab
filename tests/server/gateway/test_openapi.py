"""The description is of what is there, and whatever it allows is answered as it says."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pocketquery.client.gateway.signing import signed_headers
from pocketquery.server.gateway.openapi import DESCRIPTION
from tests.server.gateway.relay_kill_points import SECURE
from tests.server.gateway.serve_gateway import Served, serving
from tests.server.gateway.small_gateway import asked_for, opened, small_release

FREE = {
    "requests-per-minute": 1e6,
    "address-requests-per-minute": 1e6,
    "registrations-per-hour": 1e6,
    "uploads-per-day": 1000,
}


def test_every_path_is_described_and_every_description_is_of_a_path(tmp_path: Path) -> None:
    from pocketquery.server.gateway.app import device_app

    with opened(tmp_path) as small:
        routes = device_app(small.gateway).routes
        found = {
            (route.path, method.lower())  # type: ignore[attr-defined]
            for route in routes
            for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
        }
        assert found == {
            (path, method) for path, methods in DESCRIPTION["paths"].items() for method in methods
        }
        assert small.client.get("/v1/openapi.json").json() == DESCRIPTION
        for method, path in (("GET", "/v1/nothing"), ("POST", "/v1/offer")):
            answer = small.client.request(method, path)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.status_code in (404, 405)


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
        operations = [one.ok() for one in schema.get_all_operations()]
        assert len(operations) == 12
        seen: set[int] = set()
        for operation in operations:
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
