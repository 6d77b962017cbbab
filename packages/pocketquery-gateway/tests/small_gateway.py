"""A gateway in this process, and devices that talk to it: real journal, real application."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from starlette.applications import Starlette

from pocketquery.client.gateway.signing import signed_headers
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.sdk.bundle.adapter import pack_adapter, parse_adapter
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_gateway.app import device_app
from pocketquery_gateway.attestation import Attestation
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.control import control_app
from pocketquery_gateway.gateway import Gateway
from pocketquery_gateway.journal import JOURNAL, GatewayJournal
from pocketquery_gateway.settings import GatewaySettings
from tests.sdk.tiny_bundle import default_adapter, tiny_files, tiny_manifest
from tests.server.federation.replies import SETTINGS, reply

HOST = "gateway.test"
ROUND = replace(
    SETTINGS,
    clients_per_round=30,
    aggregation="median",
    shards=5,
    shard_seed=11,
    weighting="equal",
)


@dataclass
class Clock:
    """Seconds that pass where a test says so."""

    now: float = 1_800_000_000.5

    def __call__(self) -> float:
        return self.now


class Client:
    """Requests to an application in this process, one at a time."""

    def __init__(self, app: Starlette, runner: asyncio.Runner) -> None:
        self._runner = runner
        transport = httpx.ASGITransport(app)
        self._client = httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}")

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **how))

    def get(self, path: str, **how: Any) -> httpx.Response:
        return self.request("GET", path, **how)

    def put(self, path: str, **how: Any) -> httpx.Response:
        return self.request("PUT", path, **how)

    def post(self, path: str, **how: Any) -> httpx.Response:
        return self.request("POST", path, **how)


@dataclass
class SmallGateway:
    """What a test needs of one gateway."""

    gateway: Gateway
    client: Client
    control: Client
    clock: Clock

    def begin(self, asked: CohortOffer) -> httpx.Response:
        """Have the server ask."""
        return self.control.put("/round", content=asked.to_bytes())

    def answer(self, asked: CohortOffer) -> httpx.Response:
        """What the server gets."""
        self.control.get("/health")
        return self.control.get(f"/round/{asked.digest}")


@contextmanager
def opened(
    folder: Path,
    *,
    attestation: Attestation | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> Iterator[SmallGateway]:
    """A gateway whose files are in ``folder``."""
    clock = clock or Clock()
    with GatewayJournal.open(folder / JOURNAL, clock=clock) as journal:
        given: dict[str, Any] = {"authorities": (HOST,), "requests_per_minute": 6000.0} | settings
        clock.now -= 2
        gateway = Gateway(
            GatewaySettings(folder=folder, **given),
            journal,
            attestation=attestation,
            clock=clock,
            monotonic=clock,
        )
        clock.now += 2  # it was started a while ago
        try:
            with asyncio.Runner() as runner:
                client = Client(device_app(gateway), runner)
                yield SmallGateway(gateway, client, Client(control_app(gateway), runner), clock)
        finally:
            gateway.worker.stop()


@dataclass
class SmallDevice:
    """A device's key, and requests that it signs."""

    at: SmallGateway
    key: bytes = field(default_factory=lambda: os.urandom(32))

    def signed(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        host: str = HOST,
        created: float | None = None,
        figures: str | None = None,
    ) -> dict[str, str]:
        return signed_headers(
            self.key,
            method,
            host,
            path,
            body,
            created=int(self.at.clock() if created is None else created),
            nonce=os.urandom(16),
            figures=figures,
        )

    def ask(self, method: str, path: str, body: bytes = b"", **how: Any) -> httpx.Response:
        headers = self.signed(method, path, body, **how)
        return self.at.client.request(method, path, content=body, headers=headers)

    def register(self, body: bytes = b"{}") -> httpx.Response:
        return self.ask("PUT", "/v1/device", body)

    def offer(self) -> Any:
        found = self.ask("GET", "/v1/offer")
        assert found.status_code == 200, found.text
        return found.json()

    def send(self, update: bytes, number: int = 0, **how: Any) -> httpx.Response:
        return self.ask("PUT", f"/v1/rounds/{number}/update", update, **how)


def devices(at: SmallGateway, count: int) -> list[SmallDevice]:
    """Registered ones."""
    made = [SmallDevice(at) for _ in range(count)]
    for device in made:
        assert device.register().status_code == 201
    return made


def code_of(response: httpx.Response) -> str:
    """The code of the problem that a response tells."""
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == response.status_code
    return str(body["code"])


def small_release(version: str = "1") -> bytes:
    """A release of the tiny bundle's adapter."""
    manifest = tiny_manifest(tiny_files())
    return pack_adapter(default_adapter(), manifest=manifest, version=version, parent_version=None)


def state_of(release: bytes, number: int = 0) -> FederationState:
    """The server's state where ``release`` is in force."""
    found = parse_adapter(release, "release")
    return FederationState(
        round=number,
        version=found.version,
        adapter={name: value.astype(np.float32) for name, value in found.tensors.items()},
        space_id=found.space_id,
        encoder_sha256=found.encoder_sha256,
    )


def update_for(state: FederationState, number: int, **header: Any) -> bytes:
    """What the device ``number`` sends to the round of ``state``."""
    rng = np.random.default_rng(number)
    change = {
        name: rng.normal(0, 0.1, value.shape).astype(np.float32)
        for name, value in state.adapter.items()
    }
    return reply(number, state, change=change, **header)


def asked_for(
    release: bytes, *, wanted: int = 20, number: int = 0, settings: RoundSettings = ROUND
) -> CohortOffer:
    """What the server asks of the gateway."""
    offer = Offer(round=number, release=release, config=LocalConfig(), lineage=b"")
    return CohortOffer(offer, settings, asked=wanted, wanted=wanted, seconds=100.0)
