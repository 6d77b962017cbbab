"""A gateway's settings, from a TOML file; the names are the same with hyphens."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.fields import shortened
from pocketquery.sdk.validation import Rule, check, check_fields, number, optional, whole

__all__ = ["GatewaySettings"]

_TEXT = Rule(lambda value: isinstance(value, str), "a text")
_TEXTS = Rule(
    lambda value: isinstance(value, tuple) and all(isinstance(one, str) for one in value),
    "a list of texts",
)
_TABLE = Rule(lambda value: isinstance(value, Mapping), "a table")
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
_PORT_DIGITS = 5
_LARGEST_PORT = 65_535
_OWN_PORTS = {"http": 80, "https": 443}  # which no browser says of an origin


def _is_path(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_origin(value: object) -> bool:
    """What a browser can send; Starlette compares letter by letter."""
    if value in ("*", "null"):
        return True
    found = re.fullmatch(rf"([a-z][a-z0-9+.-]*)://{_HOST}(?::([1-9][0-9]*))?", str(value))
    if not found or str(value) != str(value).lower():
        return False
    scheme, port = found.groups()
    return port is None or (_is_port(port) and int(port) != _OWN_PORTS.get(scheme))


def _is_authority(value: object) -> bool:
    found = re.fullmatch(rf"{_HOST}(?::([0-9]+))?", str(value))
    return found is not None and (found[1] is None or _is_port(found[1]))


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
_FLAG = Rule(lambda value: isinstance(value, bool), "true or false")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LONGEST_SOCKET = 103  # bytes, before the zero at its end; Linux would take four more
_SHARE_OF_ADDRESS = 4  # an address has at most one part of connections and bodies
_NAMED = ("certificate", "key", "attestation", "metrics")
_LISTED = ("authorities", "origins", "trusted_proxies")


@dataclass(frozen=True)
class GatewaySettings:
    """How a gateway is run.

    Attributes:
        folder: of its journal, its releases and its socket.
        listen: host and port for devices.
        certificate, key: PEM files for TLS. Without, it listens on loopback alone, or
        behind_proxy: where something in front of it ends TLS.
        trusted_proxies: addresses, and networks, whose X-Forwarded-For is believed; ("*",): all.
        authorities: the hosts that devices know it by; a request that was signed for another is
            refused, whatever the case of its letters. Empty: any, which is for trying out.
        origins: of web pages that may use it (CORS), say "https://app.example.org".
        metrics: host and port for Prometheus; empty: on the socket alone.
        attestation: an installed plug-in or "module:function", see attestation/; empty: any key may
            register.
        attestation_options: keyword arguments of that plug-in or function.
        attestation_seconds: that it may take to check a device's evidence.
        most_devices: that may register.
        uploads_per_day: of a device.
        requests_per_minute: of a device, twice as many at once.
        address_requests_per_minute: of an address, twice as many at once; many devices may share
            one.
        registrations_per_hour: of an address.
        connections: at once; more are told to come back.
        address_connections: at once of an address (an IPv6 /64); more are refused. 0: as many as it
            likes; None: a quarter of ``connections``. Behind a proxy those of trusted_proxies are
            not counted, for they are many devices'.
        header_seconds: until a request's headers are there, from the connection or its first byte.
        body_megabytes: of requests' bodies in memory at once; more are told to come back. An
            address has at most a quarter of them, but for trusted_proxies, as above.
        body_seconds: until its body is there, and as long for its answer to be taken.
        lease_seconds: a device that took an offer and sent nothing for so long is not waited for.
        poll_seconds: between two questions of a device for an offer.
        clock_seconds: that a device's clock may be off.
        grace_seconds: requests have to end where the gateway is stopped.
        free_megabytes: on the folder's disk, without which the gateway says that it is not healthy.

    Raises:
        InvalidInputError: a setting is out of its range, or devices would talk to it unencrypted.
    """

    folder: Path
    listen: str = "127.0.0.1:8080"
    certificate: str = ""
    key: str = ""
    behind_proxy: bool = False
    trusted_proxies: tuple[str, ...] = ("127.0.0.1",)
    authorities: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    metrics: str = ""
    attestation: str = ""
    attestation_options: Mapping[str, Any] = field(default_factory=dict)
    attestation_seconds: float = 10.0
    most_devices: int = 1_000_000
    uploads_per_day: int = 24
    requests_per_minute: float = 60.0
    address_requests_per_minute: float = 6000.0
    registrations_per_hour: float = 600.0
    connections: int = 2000
    address_connections: int | None = None
    header_seconds: float = 20.0
    body_seconds: float = 60.0
    body_megabytes: int = 128
    lease_seconds: float = 600.0
    poll_seconds: int = 60
    clock_seconds: int = 60
    grace_seconds: int = 20
    free_megabytes: int = 64

    def __post_init__(self) -> None:
        check_fields(
            self,
            **dict.fromkeys(("listen", *_NAMED), _TEXT),
            **dict.fromkeys(_LISTED, _TEXTS),
            behind_proxy=_FLAG,
            attestation_options=_TABLE,
            **dict.fromkeys(
                ("most_devices", "uploads_per_day", "connections", "body_megabytes"), whole()
            ),
            **dict.fromkeys(
                ("requests_per_minute", "address_requests_per_minute", "registrations_per_hour"),
                number(above=0),
            ),
            address_connections=optional(whole(0)),
            **dict.fromkeys(
                ("lease_seconds", "attestation_seconds", "header_seconds", "body_seconds"),
                number(above=0),
            ),
            poll_seconds=whole(0, 86_400),
            clock_seconds=whole(1, 3600),
            grace_seconds=whole(0, 3600),
            free_megabytes=whole(0),
        )
        check("folder", str(self.folder), _PATH)
        for name in ("certificate", "key"):
            check(name, getattr(self, name), _PATH)
        for one in self.origins:
            check("one of origins", one, _ORIGIN)
        for one in self.authorities:
            check("one of authorities", one, _AUTHORITY)
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
        path = Path(path)
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{path} cannot be read as TOML: {error}") from error
        return cls.of(found, path.parent)

    @classmethod
    def of(cls, given: Mapping[str, Any], base: Path) -> GatewaySettings:
        """The settings by their names with hyphens. Raises as :meth:`read`."""
        known = {one.name.replace("_", "-"): one.name for one in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise InvalidInputError(
                f"found {', '.join(unknown)} in the gateway's configuration, expected some of "
                f"{', '.join(known)}"
            )
        if not given.get("folder"):
            raise InvalidInputError(
                "found no folder in the gateway's configuration, expected where its journal, its "
                'releases and its socket go: folder = "gateway"'
            )
        values: dict[str, Any] = {
            known[name]: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
        }
        for name in ("folder", "certificate", "key"):
            check(name, values.get(name, ""), _PATH)
            if values.get(name):
                values[name] = base / values[name]
        values |= {name: str(values[name]) for name in ("certificate", "key") if name in values}
        return cls(**values)
