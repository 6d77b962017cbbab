"""A gateway as a process: its sockets, its clock, and how it is stopped.

SIGTERM and SIGINT let requests end, write what waits, and leave an open round in the journal; the
next start goes on with it. SIGKILL may come at any time: see journal.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_gateway.app import device_app
from pocketquery_gateway.control import control_app, watching_app
from pocketquery_gateway.entrance.connections import limited_protocol
from pocketquery_gateway.gateway import Gateway
from pocketquery_gateway.journal import JOURNAL, GatewayJournal
from pocketquery_gateway.logs import event
from pocketquery_gateway.settings import GatewaySettings

__all__ = ["run_gateway", "serve"]

_TICK = 1.0
_TURN = 0.0005
_BACKLOG = 2048
_KEEP_ALIVE = 75
_MOST_CONTROL_BYTES = 1 << 30  # of bodies from the gateway's own Flower node
_MOST_WATCHING_BYTES = 1 << 20


def run_gateway(
    settings: GatewaySettings, ready: Callable[[int], None] = lambda port: None
) -> None:
    """Serve until a signal stops it.

    Args:
        settings: how it is run.
        ready: told the port that devices may use, once they may.

    Raises:
        ArtifactError: the journal cannot be opened, or another gateway has it.
        InvalidInputError: certificate or key cannot be used.
        OSError: an address is in use.
    """
    _check_tls(settings)
    with GatewayJournal.open(settings.folder / JOURNAL) as journal:
        gateway = Gateway(settings, journal)
        # Two threads take turns, one reads requests and one sums: whoever has waited for the disk
        # or the network is not to wait for the other's whole turn of 5 ms besides.
        before = sys.getswitchinterval()
        sys.setswitchinterval(_TURN)
        gc.freeze()  # what is there now stays, and need not be looked through again and again
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(serve(gateway, ready))
        finally:
            gc.unfreeze()
            sys.setswitchinterval(before)
            gateway.worker.stop()
            settings.socket.unlink(missing_ok=True)


class _PasswordWanted(Exception):
    """A key is encrypted: whoever starts the gateway is asked, once."""


def _check_tls(settings: GatewaySettings) -> None:
    for name, path in (("certificate", settings.certificate), ("key", settings.key)):
        try:
            if path:
                Path(path).open("rb").close()
        except OSError as error:
            raise InvalidInputError(
                f"{name} is {path}, which cannot be read ({error.strerror}); expected a PEM file"
            ) from error

    def password() -> str:
        raise _PasswordWanted

    try:
        if settings.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(settings.certificate, settings.key, password)
    except _PasswordWanted:
        pass
    except ssl.SSLError as error:
        raise InvalidInputError(
            f"certificate {settings.certificate} and key {settings.key} cannot be used ({error}), "
            "expected PEM: a chain of certificates, and the private key of the first"
        ) from error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def serve(gateway: Gateway, ready: Callable[[int], None] = lambda port: None) -> None:
    """Serve ``gateway`` on its sockets until SIGTERM or SIGINT."""
    settings = gateway.settings
    metrics, own = gateway.metrics, replace(settings, behind_proxy=True, trusted_proxies=("*",))
    control = limited_protocol(own, metrics, most_body_bytes=_MOST_CONTROL_BYTES)
    device = limited_protocol(settings, metrics, gateway.authentication.admit)
    apps: list[tuple[uvicorn.Server, socket.socket]] = [
        (_server(settings, control_app(gateway), control), _unix_socket(settings)),
        (
            _server(settings, device_app(gateway), device, public=True),
            _tcp_socket(*settings.address("listen")),
        ),
    ]
    if settings.metrics:
        own = replace(settings, behind_proxy=False)
        watching = limited_protocol(own, metrics, most_body_bytes=_MOST_WATCHING_BYTES)
        server = _server(settings, watching_app(gateway), watching)
        apps.append((server, _tcp_socket(*settings.address("metrics"))))
    servers = [server for server, _ in apps]

    def stop() -> None:
        for server in servers:
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await gateway.tick()
    ticking = asyncio.create_task(_tick(gateway))
    running = [asyncio.create_task(server.serve([one])) for server, one in apps]
    try:
        while not all(server.started for server in servers):
            if any(task.done() for task in running):
                break
            await asyncio.sleep(0.01)
        else:
            event("started", devices=int(gateway.metrics.devices._value.get()))
            ready(apps[1][1].getsockname()[1])
        await asyncio.gather(*running)
    finally:
        stop()
        ticking.cancel()
        event("stopped")


async def _tick(gateway: Gateway) -> None:
    while True:
        with contextlib.suppress(Exception):  # it is told where the journal is written
            await gateway.tick()
        await asyncio.sleep(_TICK)


class _Server(uvicorn.Server):
    """uvicorn's, which leaves signals to :func:`serve`: there are several in one process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield


def _server(
    settings: GatewaySettings,
    app: Starlette,
    protocol: type[asyncio.Protocol],
    *,
    public: bool = False,
) -> uvicorn.Server:
    tls = {}
    if public and settings.certificate:
        tls = {"ssl_certfile": settings.certificate, "ssl_keyfile": settings.key}
    return _Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",  # it would go on without these limits
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=public and settings.behind_proxy,
            forwarded_allow_ips=list(settings.trusted_proxies),
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=settings.grace_seconds,
            **tls,  # type: ignore[arg-type]
        )
    )


def _tcp_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made


def _unix_socket(settings: GatewaySettings) -> socket.socket:
    """A socket for this user alone; one that a killed gateway left is replaced, and that none is
    running the journal's lock says."""
    settings.socket.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(str(settings.socket.absolute()))
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    return made
