"""The control application: what a gateway's Flower node may ask, over a socket that only the
gateway's own user can open; and health and metrics for monitoring.

The other end is control_client.py.

    PUT  /round                  a CohortOffer; begins the round, or goes on with it
    GET  /round/{digest}         the cohort's sum, once it is there; 202 until then (?wait=seconds);
                                 of a private round, a StageBundle of who is ready
    PUT  /stage                  a StageBundle, the messages of a later stage; 201 or, known, 200
    GET  /stage/{digest}         the replies, once all are there; 202 until then (?wait=seconds),
                                 or with ?last=1 those that came
    PUT  /release                an AnnouncedRelease, the release in force
    GET  /health, /metrics
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ExceptionHandler

from pocketquery.sdk.errors import PocketQueryError
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.stage_bundle import StageBundle
from pocketquery_gateway.entrance.requests import Entrance
from pocketquery_gateway.gateway import Gateway
from pocketquery_gateway.problems import Problem

__all__ = ["control_app", "watching_app"]

_LONGEST_WAIT = 60.0


def control_app(gateway: Gateway) -> Starlette:
    """What the gateway's own user may ask."""

    server = gateway.server

    async def begin(request: Request) -> Response:
        begun = await server.begin(CohortOffer.from_bytes(await request.body()))
        return Response(status_code=201 if begun else 200)

    async def answer(request: Request) -> Response:
        return _ready(await server.answer(request.path_params["digest"], _wait(request)))

    async def begin_stage(request: Request) -> Response:
        begun = await server.begin_stage(StageBundle.from_bytes(await request.body()))
        return Response(status_code=201 if begun else 200)

    async def replies(request: Request) -> Response:
        digest, last = request.path_params["digest"], request.query_params.get("last") == "1"
        return _ready(await server.stage_replies(digest, _wait(request), last=last))

    async def announce(request: Request) -> Response:
        await server.announce(AnnouncedRelease.from_bytes(await request.body()))
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/round", begin, methods=["PUT"]),
            Route("/round/{digest}", answer, methods=["GET"]),
            Route("/stage", begin_stage, methods=["PUT"]),
            Route("/stage/{digest}", replies, methods=["GET"]),
            Route("/release", announce, methods=["PUT"]),
            *_watching(gateway),
        ],
        exception_handlers=_HANDLERS,
    )


async def _problem(request: Request, error: Exception) -> Response:
    problem = error if isinstance(error, Problem) else Problem(400, "body", str(error))
    return problem.response()


_HANDLERS: Mapping[Any, ExceptionHandler] = {Problem: _problem, PocketQueryError: _problem}


def _wait(request: Request) -> float:
    return min(_LONGEST_WAIT, float(request.query_params.get("wait", "0")))


def _ready(data: bytes | None) -> Response:
    if data is None:
        return Response(status_code=202)
    return Response(data, media_type="application/octet-stream")


def watching_app(gateway: Gateway) -> Starlette:
    """Health and metrics alone."""
    entrance = Middleware(Entrance, gateway=gateway, watches=True)
    return Starlette(routes=_watching(gateway), middleware=[entrance], exception_handlers=_HANDLERS)


def _watching(gateway: Gateway) -> list[Route]:
    async def health(request: Request) -> Response:
        await gateway.health()
        return Response(json.dumps({"status": "ok"}), media_type="application/json")

    async def metrics(request: Request) -> Response:
        return Response(gateway.metrics.text(), media_type="text/plain; version=0.0.4")

    return [Route("/health", health), Route("/metrics", metrics)]
