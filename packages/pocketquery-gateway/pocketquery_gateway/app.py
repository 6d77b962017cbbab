"""The gateway as an ASGI application: routes, bodies, answers. What they mean is in gateway.py.

``openapi.json`` beside it describes every path, and a test compares the two.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pocketquery.client.gateway.messages import STAGE_HEADER
from pocketquery.client.gateway.signing import FIGURES_HEADER, SignedRequest
from pocketquery.client.private.messages import Stage
from pocketquery.sdk.files import sha256_bytes
from pocketquery_gateway.authentication import Request
from pocketquery_gateway.body_limits import SMALL_BODY
from pocketquery_gateway.entrance.requests import PROBLEM, Entrance
from pocketquery_gateway.gateway import Gateway
from pocketquery_gateway.problems import Problem

__all__ = ["DESCRIPTION", "device_app"]

_SIGNATURE_HEADERS = ("content-digest", "signature", "signature-input", FIGURES_HEADER)
_EXPOSED = ("date", "etag", "retry-after", "content-range", STAGE_HEADER)
_NO_STORE = {"cache-control": "no-store"}
_IMMUTABLE = "public, max-age=31536000, immutable"
_LONGEST_ROUND = 18  # digits
_STAGES = {str(int(stage)): stage for stage in Stage}
DESCRIPTION = Path(__file__).with_name("openapi.json")
"""The OpenAPI description of what devices may ask, served at ``/v1/openapi.json``."""


def device_app(gateway: Gateway) -> Starlette:
    """The application that devices talk to."""
    handlers = _Handlers(gateway)
    paths: list[tuple[str, str, _Handler]] = [
        ("PUT", "/v1/rounds/{round}/update", handlers.update),  # first: it is asked for most
        ("GET", "/v1/health", handlers.health),
        ("GET", "/v1/openapi.json", handlers.openapi),
        ("POST", "/v1/challenge", handlers.challenge),
        ("PUT", "/v1/device", handlers.register),
        ("DELETE", "/v1/device", handlers.forget),
        ("GET", "/v1/offer", handlers.offer),
        ("PUT", "/v1/rounds/{round}/declined", handlers.decline),
        ("GET", "/v1/rounds/{round}/secure", handlers.message),
        ("PUT", "/v1/rounds/{round}/secure/{stage}", handlers.reply),
        ("GET", "/v1/releases/current", handlers.current),
        ("GET", "/v1/releases/{sha256}", handlers.release),
    ]
    cross_origin: dict[str, Any] = {
        "allow_origins": list(gateway.settings.origins),
        "allow_methods": ["GET", "PUT", "POST", "DELETE"],
        "allow_headers": ["content-type", "range", "if-none-match", *_SIGNATURE_HEADERS],
        "expose_headers": list(_EXPOSED),
        "max_age": 86_400,
    }
    given = cross_origin if gateway.settings.origins else None
    middleware = [Middleware(Entrance, gateway=gateway, cross_origin=given)]
    if given is not None:
        middleware.append(Middleware(CORSMiddleware, **given))
    app = Starlette(
        routes=[
            Route(path, _Path(gateway, path, handler), methods=[method])
            for method, path, handler in paths
        ],
        middleware=middleware,
        exception_handlers={HTTPException: _http_problem},
    )
    app.router.redirect_slashes = False
    return app


class _Call:
    """A request that is being answered.

    Args:
        scope, receive: as ASGI hands them.
        seconds: that its body may take.
    """

    def __init__(self, scope: Scope, receive: Receive, seconds: float) -> None:
        # Of a header that comes twice the first counts.
        self.headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in reversed(scope["headers"])
        }
        client, raw = scope.get("client"), scope.get("raw_path") or scope["path"].encode()
        self.request = Request(
            method=scope["method"],
            path=raw.decode("latin-1").partition("?")[0],
            authority=self.headers.get("host", ""),
            headers=self.headers,
            address=None if client is None else client[0],
            query=scope["query_string"].decode("latin-1"),
        )
        self.parameters: dict[str, str] = scope["path_params"]
        self._receive = receive
        self._seconds = seconds

    async def body(self, most: int) -> bytes:
        """The body, of at most ``most`` bytes; a longer one is not read, nor one that comes slowly.

        Raises:
            Problem: it is longer, or is not here in time.
            ClientDisconnect: whoever sent it has gone.
        """
        detail = f"found more than {most} bytes, expected at most that many"
        problem = Problem(413, "too_large", detail)
        declared = self.headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > most:
            raise problem
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self._seconds):
                while more:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > most:
                        raise problem
        except TimeoutError as error:
            detail = f"the body took more than {self._seconds:g} s; send it again, at once"
            raise Problem(408, "slow", detail) from error
        return b"".join(parts)

    @property
    def round(self) -> int:
        """The round in the path.

        Raises:
            Problem: it is no number.
        """
        text = self.parameters["round"]
        if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_ROUND):
            raise Problem(404, "no_round", "a round is named by its number")
        return int(text)

    @property
    def stage(self) -> Stage:
        """The stage in the path.

        Raises:
            Problem: there is no such stage.
        """
        text = self.parameters["stage"]
        if text not in _STAGES:
            raise Problem(404, "no_stage", "a stage is a number from 1 to 5")
        return _STAGES[text]


_Handler: TypeAlias = Callable[[_Call], Awaitable[Response]]


class _Path:
    """A path's handler, and its problems as answers."""

    def __init__(self, gateway: Gateway, path: str, handler: _Handler) -> None:
        self.path = path
        self._gateway, self._handler = gateway, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application."""
        call = _Call(scope, receive, self._gateway.settings.body_seconds)
        try:
            response = await self._handler(call)
        except Problem as problem:
            response = _as_answer(scope, problem)
        except ClientDisconnect:
            response = _as_answer(scope, Problem(400, "gone", "the connection was closed"))
        await response(scope, receive, send)


class _Handlers:
    """One method a path."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._description = DESCRIPTION.read_bytes()

    async def health(self, call: _Call) -> Response:
        """Whether an upload could be kept now."""
        await self._gateway.health()
        return _json({"status": "ok"})

    async def openapi(self, call: _Call) -> Response:
        return Response(self._description, media_type="application/json")

    async def challenge(self, call: _Call) -> Response:
        await call.body(0)
        return _json(self._gateway.attesting.challenge())

    async def register(self, call: _Call) -> Response:
        signed, body = await self._signed(call, SMALL_BODY, registered=False)
        new = await self._gateway.register(call.request, signed, _object(body))
        return _json({"registered": True}, 201 if new else 200)

    async def forget(self, call: _Call) -> Response:
        signed, _ = await self._signed(call)
        await self._gateway.forget(signed)
        return Response(status_code=204, headers=_NO_STORE)

    async def offer(self, call: _Call) -> Response:
        signed, _ = await self._signed(call)
        return _json(await self._gateway.offer(signed))

    async def update(self, call: _Call) -> Response:
        number = call.round
        signed, body = await self._signed(call, self._gateway.body_limits.update)
        verdict, detail = await self._gateway.update(signed, call.headers, number, body)
        if verdict.accepted:
            return _ACCEPTED
        raise Problem(422, verdict.reason, detail)

    async def decline(self, call: _Call) -> Response:
        number = call.round
        signed, _ = await self._signed(call)
        await self._gateway.decline(signed, number)
        return Response(status_code=204, headers=_NO_STORE)

    async def message(self, call: _Call) -> Response:
        number = call.round
        signed, _ = await self._signed(call)
        pending = await self._gateway.message(signed, number)
        if not isinstance(pending, tuple):
            return Response(status_code=204, headers=_NO_STORE | {"retry-after": f"{pending:.0f}"})
        headers = _NO_STORE | {STAGE_HEADER: str(int(pending[0]))}
        return Response(pending[1], headers=headers, media_type="application/octet-stream")

    async def reply(self, call: _Call) -> Response:
        number, stage = call.round, call.stage
        signed, body = await self._signed(call, self._gateway.body_limits.reply(stage))
        await self._gateway.reply(signed, number, stage, body)
        return _json({"verdict": "received"})

    async def _signed(
        self, call: _Call, most: int = 0, *, registered: bool = True
    ) -> tuple[SignedRequest, bytes]:
        """Who signed a request, and its body of at most ``most`` bytes, which is not read before
        the signature is checked."""
        signed = await self._gateway.signed(call.request, registered=registered)
        body = await call.body(most)
        self._gateway.authentication.check_body(signed, body)
        return signed, body

    async def current(self, call: _Call) -> Response:
        release = await self._gateway.in_force()
        body = {
            "version": release.version,
            "sha256": release.sha256,
            "bytes": release.size,
            "path": f"/v1/releases/{release.sha256}",
            "lineage": base64.b64encode(release.lineage).decode(),
        }
        response = _json(body, headers={"cache-control": "no-cache"})
        return _unless_known(call, response, f'"{sha256_bytes(bytes(response.body))}"')

    async def release(self, call: _Call) -> Response:
        name = call.parameters["sha256"]
        path = self._gateway.settings.releases / f"{name}.safetensors"
        if len(name) != 64 or not set(name) <= set("0123456789abcdef") or not path.is_file():
            raise Problem(404, "no_release", "there is no such release here, or not any more")
        etag = f'"{name}"'
        headers = {"etag": etag, "cache-control": _IMMUTABLE}
        file = FileResponse(path, headers=headers, media_type="application/octet-stream")
        return _unless_known(call, file, etag)


def _object(body: bytes) -> dict[str, Any]:
    """The JSON object in ``body``; an empty body is an empty one.

    Raises:
        Problem: it is something else.
    """
    try:
        content = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Problem(400, "json", "the body is no JSON; expected an object") from error
    if not isinstance(content, dict):
        raise Problem(400, "json", "the body is JSON, but no object")
    return content


def _json(
    body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(json.dumps(body), status, headers or _NO_STORE, media_type="application/json")


_ACCEPTED = _json({"verdict": "accepted"})


def _unless_known(call: _Call, response: Response, etag: str) -> Response:
    """``response``, or 304 where the caller has it already."""
    response.headers["etag"] = etag
    known = [one.strip() for one in call.headers.get("if-none-match", "").split(",")]
    if etag not in known and f"W/{etag}" not in known and "*" not in known:
        return response
    headers = {name: response.headers[name] for name in ("etag", "cache-control")}
    return Response(status_code=304, headers=headers)


async def _http_problem(request: HttpRequest, error: Exception) -> Response:
    """What Starlette itself answers: no such path, another method."""
    assert isinstance(error, HTTPException)
    codes = {404: "no_path", 405: "method"}
    problem = Problem(
        error.status_code, codes.get(error.status_code, "http"), "see docs/gateway.md"
    )
    response = _as_answer(request.scope, problem)
    response.headers.update(error.headers or {})
    return response


def _as_answer(scope: Scope, problem: Problem) -> Response:
    scope["state"][PROBLEM] = problem  # for the log's line
    return problem.response()
