"""The server's side of a gateway: what its Flower node asks, over a socket that only the gateway's
own user can open; and health and metrics for whoever watches it.

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

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pocketquery.sdk.errors import PocketQueryError
from pocketquery.server.federation.cohorts.announced_release import AnnouncedRelease
from pocketquery.server.federation.cohorts.cohort_offer import CohortOffer
from pocketquery.server.federation.cohorts.stage_bundle import StageBundle
from pocketquery.server.gateway.entrance.requests import Entrance
from pocketquery.server.gateway.gateway import Gateway
from pocketquery.server.gateway.problems import Problem

__all__ = ["control_app", "watching_app"]

_LONGEST_WAIT = 60.0


def control_app(gateway: Gateway) -> Starlette:
    """What the gateway's own user may ask."""

    async def begin(request: Request) -> Response:
        try:
            asked = CohortOffer.from_bytes(await request.body())
            begun = await gateway.server.begin(asked)
        except Problem as problem:
            return problem.response()
        except PocketQueryError as error:
            return Problem(400, "offer", str(error)).response()
        return Response(status_code=201 if begun else 200)

    async def answer(request: Request) -> Response:
        try:
            found = await gateway.server.answer(request.path_params["digest"], _wait(request))
        except Problem as problem:
            return problem.response()
        return _found(found)

    async def begin_stage(request: Request) -> Response:
        try:
            bundle = StageBundle.from_bytes(await request.body())
            begun = await gateway.server.begin_stage(bundle)
        except Problem as problem:
            return problem.response()
        except PocketQueryError as error:
            return Problem(400, "stage", str(error)).response()
        return Response(status_code=201 if begun else 200)

    async def replies(request: Request) -> Response:
        last = request.query_params.get("last") == "1"
        try:
            found = await gateway.server.stage_replies(
                request.path_params["digest"], _wait(request), last=last
            )
        except Problem as problem:
            return problem.response()
        return _found(found)

    async def announce(request: Request) -> Response:
        try:
            announced = AnnouncedRelease.from_bytes(await request.body())
            await gateway.server.announce(announced)
        except Problem as problem:
            return problem.response()
        except PocketQueryError as error:
            return Problem(400, "release", str(error)).response()
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/round", begin, methods=["PUT"]),
            Route("/round/{digest}", answer, methods=["GET"]),
            Route("/stage", begin_stage, methods=["PUT"]),
            Route("/stage/{digest}", replies, methods=["GET"]),
            Route("/release", announce, methods=["PUT"]),
            *_watching(gateway),
        ]
    )


def _wait(request: Request) -> float:
    return min(_LONGEST_WAIT, float(request.query_params.get("wait", "0")))


def _found(data: bytes | None) -> Response:
    if data is None:
        return Response(status_code=202)
    return Response(data, media_type="application/octet-stream")


def watching_app(gateway: Gateway) -> Starlette:
    """Health and metrics alone."""
    entrance = Middleware(Entrance, gateway=gateway, watches=True)
    return Starlette(routes=_watching(gateway), middleware=[entrance])


def _watching(gateway: Gateway) -> list[Route]:
    async def health(request: Request) -> Response:
        try:
            await gateway.health()
        except Problem as problem:
            return problem.response()
        return Response(json.dumps({"status": "ok"}), media_type="application/json")

    async def metrics(request: Request) -> Response:
        return Response(gateway.metrics.text(), media_type="text/plain; version=0.0.4")

    return [Route("/health", health), Route("/metrics", metrics)]
