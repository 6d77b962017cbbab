"""``pocketquery gateway``: devices take part in federated rounds over HTTPS."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pocketquery.sdk.commands import add_command

__all__ = ["gateway"]

_EPILOG = """\
example (gateway.toml):
  folder = "gateway"                      # its journal, releases and socket
  listen = "0.0.0.0:8443"
  certificate = "fullchain.pem"
  key = "privkey.pem"
  authorities = ["gateway.example.org:8443"]
  metrics = "127.0.0.1:9464"

Beside it runs its Flower node, as the same user:
  flower-supernode --node-config 'gateway="gateway/gateway.sock"' ...

docs/gateway.md has all settings, the paths, and how devices sign requests.
"""


def gateway(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "gateway",
        "Serve devices over HTTPS, and answer a federation's server for all of them.",
        _EPILOG,
        _run,
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="settings, TOML")
    parser.add_argument(
        "--openapi", action="store_true", help="print the OpenAPI description, and end"
    )


def _run(arguments: argparse.Namespace) -> int:
    from pocketquery_gateway.app import DESCRIPTION
    from pocketquery_gateway.logs import log_to
    from pocketquery_gateway.serving import run_gateway
    from pocketquery_gateway.settings import GatewaySettings

    settings = GatewaySettings.read(arguments.config)
    if arguments.openapi:
        print(DESCRIPTION.read_text(encoding="utf-8"), end="")
        return 0
    log_to()
    run_gateway(settings, lambda port: print(json.dumps({"port": port}), flush=True))
    return 0
