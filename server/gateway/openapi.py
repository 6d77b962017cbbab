"""The OpenAPI description of what devices may ask; served at ``/v1/openapi.json``."""

from __future__ import annotations

from typing import Any

__all__ = ["DESCRIPTION"]

_Schema = dict[str, Any]


def _answer(said: str, schema: _Schema | None = None, kind: str = "application/json") -> _Schema:
    return {"description": said} | (
        {} if schema is None else {"content": {kind: {"schema": schema}}}
    )


def _problems(*statuses: int) -> _Schema:
    answer = _answer("A problem", {"$ref": "#/components/schemas/Problem"},
                     "application/problem+json")  # fmt: skip
    # Any request may come too slowly or have too many headers, any address be told to wait, any
    # host be wrong, and the journal's disk be full.
    return {str(status): answer for status in sorted({*statuses, 408, 421, 429, 431, 503})}


def _object(required: list[str], **properties: _Schema) -> _Schema:
    return {"type": "object", "required": required, "properties": properties}


def _header(name: str, pattern: str, required: bool = True) -> _Schema:
    schema = {"type": "string", "pattern": f"^{pattern}$"}
    return {"name": name, "in": "header", "required": required, "schema": schema}


_SIGNED = [
    _header("Content-Digest", "sha-256=:[A-Za-z0-9+/]{43}=:"),
    _header("Signature-Input", r'sig1=\([a-z@" -]+\);created=[1-9][0-9]{0,10};nonce="[0-9a-f]{32}"'
            r';keyid="[0-9a-f]{64}";alg="ed25519"'),
    _header("Signature", "sig1=:[A-Za-z0-9+/]{86}==:"),
]  # fmt: skip
_FIGURES = _header("Pocketquery-Figures", r"\{.{0,190}\}", required=False)
_ROUND = {
    "name": "round",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
}
_STAGE = {
    "name": "stage",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 1, "maximum": 5},
}
_SHA256 = {
    "name": "sha256",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}
_TEXT: _Schema = {"type": "string"}
_WHOLE: _Schema = {"type": "integer", "minimum": 0}
_BINARY: _Schema = {"type": "string", "format": "binary"}
_KNOWN = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": '^"[0-9a-f]{64}"$'},
}
_RANGE = {
    "name": "Range",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": "^bytes=[0-9]{1,6}-[0-9]{0,6}$"},
}

DESCRIPTION: _Schema = {
    "openapi": "3.1.0",
    "info": {
        "title": "pocketquery gateway",
        "version": "1",
        "description": "Devices of a federation: register, take an offer, upload an update, fetch "
        "releases. docs/gateway.md says how requests are signed and what the codes mean.",
    },
    "paths": {
        "/v1/health": {
            "get": {
                "operationId": "health",
                "responses": {
                    "200": _answer("It can answer", _object(["status"], status={"const": "ok"})),
                    **_problems(),
                },
            }
        },
        "/v1/openapi.json": {
            "get": {
                "operationId": "openapi",
                "responses": {"200": _answer("This", {"type": "object"}), **_problems()},
            }
        },
        "/v1/challenge": {
            "post": {
                "operationId": "challenge",
                "responses": {
                    "200": _answer(
                        "What evidence is made over",
                        _object(["challenge", "expires_in"], challenge=_TEXT, expires_in=_WHOLE),
                    ),
                    **_problems(413),
                },
            }
        },
        "/v1/device": {
            "put": {
                "operationId": "register",
                "parameters": _SIGNED,
                "requestBody": {
                    "required": False,
                    "content": {
                        "application/json": {
                            "schema": _object([], challenge=_TEXT, attestation={"type": "object"})
                        }
                    },
                },
                "responses": {
                    "200": _answer("It was registered", {"$ref": "#/components/schemas/Device"}),
                    "201": _answer("It is registered", {"$ref": "#/components/schemas/Device"}),
                    **_problems(400, 401, 403, 413),
                },
            },
            "delete": {
                "operationId": "forget",
                "parameters": _SIGNED,
                "responses": {
                    "204": _answer("It is forgotten"),
                    **_problems(400, 401, 403, 413),
                },
            },
        },
        "/v1/offer": {
            "get": {
                "operationId": "offer",
                "parameters": _SIGNED,
                "responses": {
                    "200": _answer("An offer, or null", {"$ref": "#/components/schemas/Offered"}),
                    **_problems(400, 401, 403, 413),
                },
            }
        },
        "/v1/rounds/{round}/update": {
            "put": {
                "operationId": "update",
                "parameters": [_ROUND, *_SIGNED, _FIGURES],
                "requestBody": {
                    "required": True,
                    "content": {"application/octet-stream": {"schema": _BINARY}},
                },
                "responses": {
                    "200": _answer(
                        "It is in the sum, and on disk",
                        _object(["verdict"], verdict={"const": "accepted"}),
                    ),
                    **_problems(400, 401, 403, 404, 409, 413, 422),
                },
            }
        },
        "/v1/rounds/{round}/declined": {
            "put": {
                "operationId": "decline",
                "parameters": [_ROUND, *_SIGNED],
                "responses": {
                    "204": _answer("It is noted"),
                    **_problems(400, 401, 403, 404, 409, 413),
                },
            }
        },
        "/v1/rounds/{round}/secure": {
            "get": {
                "operationId": "message",
                "parameters": [_ROUND, *_SIGNED],
                "responses": {
                    "200": _answer(
                        "What the device is to answer; the header Pocketquery-Stage says in which "
                        "stage",
                        _BINARY,
                        "application/octet-stream",
                    ),
                    "204": _answer("Nothing yet; Retry-After says when to ask again"),
                    **_problems(400, 401, 403, 404, 409, 413),
                },
            }
        },
        "/v1/rounds/{round}/secure/{stage}": {
            "put": {
                "operationId": "reply",
                "parameters": [_ROUND, _STAGE, *_SIGNED],
                "requestBody": {
                    "required": True,
                    "content": {"application/octet-stream": {"schema": _BINARY}},
                },
                "responses": {
                    "200": _answer(
                        "It is kept", _object(["verdict"], verdict={"const": "received"})
                    ),
                    **_problems(400, 401, 403, 404, 409, 413, 422),
                },
            }
        },
        "/v1/releases/current": {
            "get": {
                "operationId": "current",
                "parameters": [_KNOWN],
                "responses": {
                    "200": _answer(
                        "The release in force",
                        _object(
                            ["version", "sha256", "bytes", "path", "lineage"],
                            version=_TEXT,
                            sha256=_TEXT,
                            bytes=_WHOLE,
                            path=_TEXT,
                            lineage=_TEXT,
                        ),
                    ),
                    "304": _answer("The caller has it"),
                    **_problems(404),
                },
            }
        },
        "/v1/releases/{sha256}": {
            "get": {
                "operationId": "release",
                "parameters": [_SHA256, _KNOWN, _RANGE],
                "responses": {
                    "200": _answer("The file", _BINARY, "application/octet-stream"),
                    "206": _answer("A part of it", _BINARY, "application/octet-stream"),
                    "304": _answer("The caller has it"),
                    "400": _answer("No range that can be read", _TEXT, "text/plain"),
                    "416": _answer("No such range", _TEXT, "text/plain"),
                    **_problems(404),
                },
            }
        },
    },
    "components": {
        "schemas": {
            "Problem": _object(
                ["type", "title", "status", "code", "detail"],
                type=_TEXT,
                title=_TEXT,
                status={"type": "integer"},
                code=_TEXT,
                detail=_TEXT,
            ),
            "Device": _object(["registered"], registered={"const": True}),
            "Offered": _object(
                ["offer", "retry_after"],
                retry_after=_WHOLE,
                offer={
                    "anyOf": [
                        {"type": "null"},
                        _object(
                            ["round", "release", "clip_norm", "largest_weight", "compress",
                             "local", "lineage"],
                            round=_WHOLE,
                            release=_object(
                                ["version", "sha256", "bytes"],
                                version=_TEXT,
                                sha256=_TEXT,
                                bytes=_WHOLE,
                            ),
                            clip_norm={"type": "number"},
                            largest_weight={"type": "number"},
                            compress={"type": "boolean"},
                            local={"type": "object"},
                            lineage=_TEXT,
                            secure=_object(["announcement"], announcement=_TEXT),
                        ),
                    ]
                },
            ),
        }
    },
}  # fmt: skip
