"""Checks of a request: its address, host and signature, that it is new, and how often they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pocketquery.client.gateway.signing import SignedRequest, read_signature
from pocketquery.sdk.errors import SignatureError
from pocketquery.sdk.files import sha256_bytes
from pocketquery_gateway.limits import Buckets, Nonces, NoncesFullError, network_of
from pocketquery_gateway.problems import Problem
from pocketquery_gateway.settings import GatewaySettings

__all__ = ["Authentication", "Request"]


@dataclass(frozen=True)
class Request:
    """What a gateway looks at of a request.

    Attributes:
        method, path: as they were sent; without a query.
        authority: the host it was sent to.
        headers: by names in small letters.
        address: of whoever sent it; None where it is not known.
        query: what followed a question mark.
    """

    method: str
    path: str
    authority: str
    headers: Mapping[str, str]
    address: str | None
    query: str = ""


class Authentication:
    """Lets requests through.

    Args:
        settings: how the gateway is run.
        clock: seconds since 1970, for signatures.
        monotonic: seconds that do not jump, for rates.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._now = monotonic
        self._nonces = Nonces(settings.clock_seconds, clock())
        self._by_device = _buckets(settings.requests_per_minute, 2)
        self._by_address = _buckets(settings.address_requests_per_minute, 2)
        self._by_watcher = _buckets(settings.address_requests_per_minute, 2)
        self._registering = _buckets(settings.registrations_per_hour / 60, 60)

    def admit(self, address: str | None, *, watches: bool = False) -> None:
        """Let one more request from an address through, unless there are too many.

        Args:
            address: whose it is.
            watches: whether it is for health or metrics, at their own port.

        Raises:
            Problem: there are.
        """
        buckets = self._by_watcher if watches else self._by_address
        what = "requests from this address"
        self._limit(buckets, network_of(address), "address_rate", what)

    def check_authority(self, authority: str) -> None:
        """See that a request is for this gateway.

        Raises:
            Problem: it is for another host.
        """
        known = [one.lower() for one in self._settings.authorities]
        if known and authority.lower() not in known:
            raise Problem(
                421, "wrong_authority", f"this gateway is known as {', '.join(known)} alone"
            )

    def signed(self, request: Request) -> SignedRequest:
        """Who signed the request, by its headers alone: what they promise of the body,
        :meth:`check_body` sees.

        Raises:
            Problem: it is not signed as it must be, by another key, or not of now.
        """
        if request.query:
            raise Problem(400, "query", "found a query in a signed request, expected none")
        try:
            signed = read_signature(
                request.headers, request.method, request.authority, request.path
            )
        except SignatureError as error:
            raise Problem(401, "unsigned", str(error)) from error
        if not self._nonces.is_in_time(signed.created, self._clock()):
            raise Problem(
                401,
                "not_in_time",
                f"signed at {signed.created}, the gateway's clock reads {int(self._clock())} and "
                f"it takes {self._settings.clock_seconds} s either way, and nothing from before "
                "its start; go by the header Date and sign again",
            )
        try:
            signed.check()
        except SignatureError as error:
            raise Problem(401, "signature", "the signature is not of this request") from error
        return signed

    def take(self, signed: SignedRequest) -> None:
        """Take a signed request, once, and not too many of a device.

        Raises:
            Problem: it was taken before, or there are too many.
        """
        self._limit(self._by_device, signed.key, "device_rate", "requests from this device")
        try:
            new = self._nonces.take(signed.key, signed.nonce, self._clock())
        except NoncesFullError as error:
            raise Problem(
                503, "busy", "too many requests", retry_after=2 * self._settings.clock_seconds
            ) from error
        if not new:
            raise Problem(401, "replayed", "this request was taken before; sign a new one")

    def check_body(self, signed: SignedRequest, body: bytes) -> None:
        """See that the body is the one that was signed.

        Raises:
            Problem: it is another.
        """
        if bytes.fromhex(sha256_bytes(body)) != signed.digest:
            raise Problem(400, "digest", "the body is not that of its content-digest; send again")

    def may_register(self, request: Request) -> None:
        """Let one more registration from an address through, unless there are too many.

        Raises:
            Problem: there are.
        """
        who, what = network_of(request.address), "new devices at this address"
        self._limit(self._registering, who, "registrations", what)

    def _limit(self, buckets: Buckets, who: bytes, code: str, what: str) -> None:
        if wait := buckets.take(who, self._now()):
            raise Problem(429, code, f"too many {what}", retry_after=wait)


def _buckets(per_minute: float, minutes: float) -> Buckets:
    """Buckets that hold what comes back in so many minutes."""
    return Buckets(per_minute, max(1, round(minutes * per_minute)))
