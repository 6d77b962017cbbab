"""A gateway's settings, from a TOML file; the names are the same with hyphens."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.fields import shortened
from pocketquery.sdk.settings.declaration import Settings, from_json, toml_values
from pocketquery.sdk.validation import Rule, check, number, whole

__all__ = ["GatewaySettings"]

_TABLE = Rule(lambda value: isinstance(value, Mapping), "a table")
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
_PORT_DIGITS = 5
_LARGEST_PORT = 65_535
_OWN_PORTS = {"http": 80, "https": 443}  # which no browser says of an origin


def _is_path(value: object) -> bool:
    return isinstance(value, str | Path) and "\0" not in str(value)


def _is_origin(value: object) -> bool:
    """What a browser can send; Starlette compares letter by letter."""
    if value in ("*", "null"):
        return True
    match = re.fullmatch(rf"([a-z][a-z0-9+.-]*)://{_HOST}(?::([1-9][0-9]*))?", str(value))
    if not match or str(value) != str(value).lower():
        return False
    scheme, port = match.groups()
    return port is None or (_is_port(port) and int(port) != _OWN_PORTS.get(scheme))


def _is_authority(value: object) -> bool:
    match = re.fullmatch(rf"{_HOST}(?::([0-9]+))?", value) if isinstance(value, str) else None
    return match is not None and (match[1] is None or _is_port(match[1]))


def _is_proxy(value: object) -> bool:
    """What uvicorn would compare with an address; anything else it takes for a name of one."""
    try:
        ipaddress.ip_network(str(value))
    except ValueError:
        return False
    return True


def _is_port(digits: str) -> bool:
    return len(digits) <= _PORT_DIGITS and int(digits) <= _LARGEST_PORT


_PATH = Rule(_is_path, "a path, without a zero character")
_ORIGIN = Rule(
    _is_origin,
    'scheme://host or scheme://host:port as browsers send it: small letters, no "/" after it, and '
    "not the scheme's own port; or *",
)
_AUTHORITY = Rule(_is_authority, "host or host:port, as it stands in devices' URLs after https://")
_PROXY = Rule(_is_proxy, 'an address, a network such as 10.0.0.0/8, or alone "*"')
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LONGEST_SOCKET = 103  # bytes, before the zero at its end; Linux would take four more
_SHARE_OF_ADDRESS = 4  # an address has at most one part of connections and bodies


@dataclass(frozen=True)
class GatewaySettings(Settings):
    """How a gateway is run.

    Without ``certificate`` and ``key`` it listens on loopback alone, or ``behind_proxy``. An
    address, of IPv6 a /64, has at most a quarter of the bodies in memory; behind a proxy those of
    ``trusted_proxies`` are not counted, for they are many devices'.

    Raises:
        InvalidInputError: a setting is out of its range, or devices would talk to it unencrypted.
    """

    folder: Annotated[Path, _PATH, "of its journal, its releases and its socket"]
    listen: Annotated[str, "host and port for devices"] = "127.0.0.1:8080"
    certificate: Annotated[str, _PATH, "PEM file for TLS"] = ""
    key: Annotated[str, _PATH, "PEM file for TLS"] = ""
    behind_proxy: Annotated[bool, "something in front of it ends TLS"] = False
    trusted_proxies: Annotated[
        tuple[str, ...], "addresses and networks whose X-Forwarded-For is believed; *: all"
    ] = ("127.0.0.1",)
    authorities: Annotated[
        tuple[str, ...],
        _AUTHORITY,
        "the hosts that devices know it by; what was signed for another is refused, whatever the "
        "case of its letters. Empty: any, which is for trying out",
    ] = ()
    origins: Annotated[
        tuple[str, ...], _ORIGIN, "of web pages that may use it (CORS), https://app.example.org"
    ] = ()
    metrics: Annotated[str, "host and port for Prometheus; empty: on the socket alone"] = ""
    attestation: Annotated[
        str,
        "a plug-in's name in the group pocketquery.attestations, or module:function; empty: any "
        "key may register",
    ] = ""
    attestation_options: Annotated[
        Mapping[str, Any], _TABLE, "arguments of that plug-in or function, by name"
    ] = field(default_factory=dict)
    attestation_seconds: Annotated[
        float, number(above=0), "that it may take to check a device's evidence"
    ] = 10.0
    most_devices: Annotated[int, whole(), "that may register"] = 1_000_000
    uploads_per_day: Annotated[int, whole(), "of a device"] = 24
    requests_per_minute: Annotated[float, number(above=0), "of a device, twice as many at once"] = (
        60.0
    )
    address_requests_per_minute: Annotated[
        float, number(above=0), "of an address, twice as many at once"
    ] = 6000.0
    registrations_per_hour: Annotated[float, number(above=0), "of an address"] = 600.0
    connections: Annotated[int, whole(), "at once; more are told to come back"] = 2000
    address_connections: Annotated[
        int | None,
        whole(0),
        "at once of an address; more are refused. 0: as many as it likes (default: a quarter)",
    ] = None
    header_seconds: Annotated[
        float, number(above=0), "until headers are there, from the connection or its first byte"
    ] = 20.0
    body_seconds: Annotated[
        float, number(above=0), "until a body is there, and as long for its answer to be taken"
    ] = 60.0
    body_megabytes: Annotated[
        int, whole(), "of bodies in memory at once; more are told to come back"
    ] = 128
    lease_seconds: Annotated[
        float,
        number(above=0),
        "a device that took an offer and sent nothing for so long is not waited for",
    ] = 600.0
    poll_seconds: Annotated[
        int, whole(0, 86_400), "between two questions of a device for an offer"
    ] = 60
    clock_seconds: Annotated[int, whole(1, 3600), "that a device's clock may be off"] = 60
    grace_seconds: Annotated[
        int, whole(0, 3600), "requests have to end where the gateway is stopped"
    ] = 20
    free_megabytes: Annotated[
        int, whole(0), "on the folder's disk, without which it is not healthy"
    ] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        for one in () if self.trusted_proxies == ("*",) else self.trusted_proxies:
            check("one of trusted-proxies", one, _PROXY)
        host, _ = self.address("listen")
        if self.metrics:
            self.address("metrics")
        if bool(self.certificate) != bool(self.key):
            raise InvalidInputError("found one of certificate and key, expected both or none")
        if not self.certificate and not self.behind_proxy and host not in _LOOPBACK:
            raise InvalidInputError(
                f"listen is {self.listen} without certificate and key, so devices would talk to it "
                "unencrypted; give both, or set behind-proxy where something in front ends TLS"
            )
        if len(str(self.socket.absolute()).encode()) > _LONGEST_SOCKET:
            raise InvalidInputError(
                f"{self.socket.absolute()} is too long for a socket; choose a folder whose path "
                f"has fewer than {_LONGEST_SOCKET - 20} letters"
            )

    @property
    def most_of_address(self) -> int:
        """Connections of an address at once; 0: as many as it likes."""
        if self.address_connections is None:
            return max(1, self.connections // _SHARE_OF_ADDRESS)
        return self.address_connections

    @property
    def body_bytes(self) -> tuple[int, int]:
        """Bytes of bodies in memory at once, of all addresses and of one."""
        most = self.body_megabytes << 20
        return most, most // _SHARE_OF_ADDRESS

    @property
    def socket(self) -> Path:
        """Where the Flower node reaches the gateway."""
        return self.folder / "gateway.sock"

    @property
    def releases(self) -> Path:
        """The folder of the release files."""
        return self.folder / "releases"

    def address(self, name: str) -> tuple[str, int]:
        """Host and port of ``listen`` or ``metrics``.

        Raises:
            InvalidInputError: it is none.
        """
        value = str(getattr(self, name))
        host, _, port = value.rpartition(":")
        is_port = re.fullmatch("[0-9]+", port) is not None and _is_port(port)
        if not is_port or not re.fullmatch(rf"[0-9A-Fa-f:.]+|{_HOST}", host):
            raise InvalidInputError(f"{name} is {shortened(value)!r}, expected host:port")
        return host.strip("[]"), int(port)

    @classmethod
    def read(cls, path: Path | str) -> GatewaySettings:
        """The settings in a TOML file; relative paths are from its folder.

        Raises:
            InvalidInputError: it cannot be read, or as the class.
        """
        return cls.of(toml_values(path), Path(path).parent)

    @classmethod
    def of(cls, given: Mapping[str, Any], base: Path) -> GatewaySettings:
        """The settings by their names with hyphens. Raises as :meth:`read`."""
        if not given.get("folder"):
            raise InvalidInputError(
                "found no folder in the gateway's configuration, expected where its journal, its "
                'releases and its socket go: folder = "gateway"'
            )
        paths: dict[str, Any] = {}
        for name in ("folder", "certificate", "key"):
            check(name, given.get(name, ""), _PATH)
            if given.get(name):
                paths[name] = str(base / given[name])
        return from_json(cls, {**given, **paths}, "the gateway's configuration")
