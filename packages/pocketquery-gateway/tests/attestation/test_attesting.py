"""What a gateway tells a device, whatever its checker does."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from attestation.evidence import challenge_of, with_evidence
from small_gateway import HOST, SmallDevice, SmallGateway, code_of, opened

from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery_gateway.app import device_app
from pocketquery_gateway.attestation import AttestationError
from pocketquery_gateway.logs import log_to


class Asks:
    """A checker that does what a function does."""

    def __init__(self, function: Callable[[bytes, Mapping[str, Any]], None]) -> None:
        self._function = function

    def check(self, bound: bytes, evidence: Mapping[str, Any]) -> None:
        self._function(bound, evidence)


def genuine(bound: bytes, evidence: Mapping[str, Any]) -> None:
    """Evidence is the binding itself, in hexadecimal digits."""
    if evidence.get("token") != bound.hex():
        raise AttestationError("the token was not made over this challenge and key")


def register(small: SmallGateway, device: SmallDevice, **evidence: Any) -> httpx.Response:
    challenge, bound = challenge_of(small, device)
    return device.register(with_evidence(challenge, {"token": bound.hex()} | evidence))


def counted(small: SmallGateway) -> dict[str, int]:
    """The outcomes of all evidence, by the metrics."""
    lines = small.gateway.metrics.text().decode().splitlines()
    start = 'gateway_attestations_total{outcome="'
    pairs = [line.removeprefix(start).split('"} ') for line in lines if line.startswith(start)]
    return {name: int(float(value)) for name, value in pairs}


def test_only_attested_devices_register_where_that_is_asked(tmp_path: Path) -> None:
    with opened(tmp_path, attestation=Asks(genuine)) as small:
        device, other = SmallDevice(small), SmallDevice(small)
        assert code_of(device.register()) == "attestation_needed"
        challenge, bound = challenge_of(small, device)
        evidence = {"token": bound.hex()}
        assert code_of(other.register(with_evidence(challenge, evidence))) == "attestation"
        assert code_of(device.register(with_evidence("A" * 54, evidence))) == "attestation"
        assert code_of(device.register(with_evidence(challenge, []))) == "attestation_needed"
        assert device.register(with_evidence(challenge, evidence)).status_code == 201
        small.clock.now += 301
        assert code_of(other.register(with_evidence(challenge, evidence))) == "attestation"
        assert counted(small) == {"accepted": 1, "refused": 3}


@pytest.mark.parametrize("error", [KeyError("secret"), RuntimeError("secret"), SystemExit(3)])
def test_a_checker_that_fails_is_named_in_the_log_alone(
    tmp_path: Path, error: BaseException
) -> None:
    def fails(bound: bytes, evidence: Mapping[str, Any]) -> None:
        raise error

    stream = io.StringIO()
    log_to(stream)
    with opened(tmp_path, attestation=Asks(fails)) as small:
        device = SmallDevice(small)
        answer = register(small, device, token="secret")
        assert (answer.status_code, code_of(answer)) == (503, "attestation_failed")
        assert int(answer.headers["retry-after"]) == 60
        assert counted(small) == {"failed": 1}
        assert device.ask("GET", "/v1/offer").status_code == 403  # it is not registered
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (line,) = [one for one in lines if one["event"] == "attestation_failed"]
    assert (line["level"], line["why"], line["error"]) == ("error", "failed", type(error).__name__)
    assert "test_attesting.py:" in line["at"]
    for text in (stream.getvalue(), answer.text):
        for secret in ("secret", public_key_of(device.key).hex()[:12], HOST):
            assert secret not in text


def test_a_checker_that_hangs_holds_neither_device_nor_gateway(tmp_path: Path) -> None:
    """Nor the end of this test, at which it hangs still."""
    stream, never = io.StringIO(), threading.Event()
    log_to(stream)

    def hangs(bound: bytes, evidence: Mapping[str, Any]) -> None:
        never.wait()

    with opened(tmp_path, attestation=Asks(hangs), attestation_seconds=0.01) as small:
        device = SmallDevice(small)
        late = register(small, device)
        assert (late.status_code, code_of(late)) == (503, "attestation_failed")
        while not counted(small).get("busy"):  # as many hang as may
            assert register(small, device).status_code == 503
        assert counted(small) == {"late": 64, "busy": 1}
        assert small.client.get("/v1/health").status_code == 200
    assert '"event": "attestation_failed", "why": "late"}' in stream.getvalue()
    assert '"event": "attestation_failed", "why": "busy"}' in stream.getvalue()
    never.set()


def test_others_are_served_while_a_checker_looks(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def looks(bound: bytes, evidence: Mapping[str, Any]) -> None:
        begun.set()
        go_on.wait()
        genuine(bound, evidence)

    with opened(tmp_path, attestation=Asks(looks), attestation_seconds=3600) as small:
        device = SmallDevice(small)
        challenge, bound = challenge_of(small, device)
        body = with_evidence(challenge, {"token": bound.hex()})
        headers = device.signed("PUT", "/v1/device", body)

        async def both() -> list[int]:
            transport = httpx.ASGITransport(device_app(small.gateway))
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as at:
                first = asyncio.create_task(at.put("/v1/device", content=body, headers=headers))
                await asyncio.to_thread(begun.wait)
                other = await at.get("/v1/health")
                go_on.set()
                return [other.status_code, (await first).status_code]

        assert small.client._runner.run(both()) == [200, 201]
        assert small.gateway.attesting._running == 0
