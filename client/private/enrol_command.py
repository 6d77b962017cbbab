"""``pocketquery enrol``: a device's key for private rounds, and the certificate of an authority."""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_action, add_command
from pocketquery.sdk.errors import InvalidInputError, PocketQueryError
from pocketquery.sdk.fields import Fields
from pocketquery.sdk.files import check_file_replaceable, make_folder, write_atomic
from pocketquery.sdk.validation import check, check_count, number

if TYPE_CHECKING:
    from pocketquery.client.private.keys import Certificate

__all__ = ["REQUEST_SCHEMA", "enrol"]

REQUEST_SCHEMA = "pocketquery-enrolment-request-1"

_EPILOG = """\
on the device:
  pocketquery enrol key --state state
  pocketquery enrol request --state state --output phone-7.request
offline, at the authority, who is not the server's operator:
  pocketquery enrol sign phone-7.request phone-8.request --key authority.pem \\
      --federation clinics --days 90
on the device again, which keeps the certificate and the authority's public key:
  pocketquery enrol show phone-7.certificate --authority authority.pub.pem \\
      --federation clinics --state state
what private rounds have cost its user so far, in this season and in all:
  pocketquery enrol budget --state state

The authority's keys are Ed25519, made with: openssl genpkey -algorithm ed25519 -out authority.pem
and openssl pkey -in authority.pem -pubout -out authority.pub.pem

Private rounds are experimental: no outside cryptographer has reviewed them.
"""
_SUFFIX = ".certificate"
_MOST_REQUEST_BYTES = 4096
_MOST_DAYS = 3650
_DAY = 86_400


def enrol(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "enrol",
        "Make a device's key for private rounds (experimental), and certify it.",
        _EPILOG,
    )
    actions = parser.add_subparsers(metavar="action", required=True)
    key = add_action(actions, "key", "make this device's key, and print its public half", _key)
    _add_state(key)
    key.add_argument(
        "--replace", action="store_true", help="also where there is one: its certificate is void"
    )
    request = add_action(
        actions, "request", "write what the authority needs to know of a key", _request
    )
    _add_state(request)
    request.add_argument("--output", required=True, metavar="FILE", help="the request")
    sign = add_action(actions, "sign", "certify the keys of requests, offline", _sign)
    sign.add_argument("requests", nargs="+", metavar="request", help="a request's file")
    sign.add_argument(
        "--key",
        required=True,
        metavar="KEY",
        help="the authority's Ed25519 private key: a PEM file or 64 hexadecimal digits",
    )
    _add_federation(sign, required=True)
    sign.add_argument("--days", type=int, default=90, help="how long they hold (default: 90)")
    sign.add_argument(
        "--output", metavar="FOLDER", help="where the certificates go (default: beside each)"
    )
    show = add_action(actions, "show", "what a certificate says, and whether it holds", _show)
    show.add_argument("certificate", help="its file")
    show.add_argument(
        "--authority",
        metavar="KEY",
        help="the authority's Ed25519 public key, to check it with; needs --federation",
    )
    _add_federation(show, required=False)
    show.add_argument("--state", metavar="FOLDER", help="whether it is for this device's key, too")
    budget = add_action(
        actions, "budget", "what private rounds have cost this device's user", _budget
    )
    _add_state(budget)
    budget.add_argument(
        "--delta", type=float, default=1e-6, help="that epsilon is told at (default: 1e-06)"
    )


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", required=True, metavar="FOLDER", help="the device's state")


def _add_federation(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--federation",
        required=required,
        metavar="NAME",
        help="a name, or the id in 32 hexadecimal digits (that of a name begins its SHA-256)",
    )


def _key(options: argparse.Namespace) -> int:
    from pocketquery.client.private.keys import DEVICE_KEY, DeviceKey

    folder = Path(options.state)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / DEVICE_KEY
    key = DeviceKey.create(path, replace=options.replace)
    if options.json:
        print(json.dumps({"path": str(path), "key": key.public.hex()}))
    else:
        print(f"{path}: public key {key.public.hex()}")
    return 0


def _request(options: argparse.Namespace) -> int:
    from pocketquery.client.private.keys import DEVICE_KEY, DeviceKey

    key = DeviceKey.open(Path(options.state) / DEVICE_KEY).public.hex()
    check_file_replaceable(Path(options.output), "a request", lambda path: _read_request(str(path)))
    write_atomic(options.output, json.dumps({"schema": REQUEST_SCHEMA, "key": key}) + "\n")
    if options.json:
        print(json.dumps({"path": options.output, "key": key}))
    else:
        print(f"{options.output}: asks for a certificate of the key {key}")
    return 0


def _sign(options: argparse.Namespace) -> int:
    """All requests are read and signed before the first certificate is written."""
    from pocketquery.client.private.keys import federation_id, sign_certificate
    from pocketquery.sdk.bundle.signature import public_key_of

    federation = federation_id(options.federation)
    days = check_count(options.days, "days", most=_MOST_DAYS)
    expiry = int(time.time()) + days * _DAY
    signed: dict[Path, Certificate] = {}
    keys: dict[bytes, str] = {}
    for name in options.requests:
        key = _read_request(name)
        if key in keys:
            raise InvalidInputError(
                f"{name} and {keys[key]} ask for the same key {key.hex()}, expected one request "
                "a device"
            )
        keys[key] = name
        path = Path(name).with_suffix(_SUFFIX)
        if options.output is not None:
            path = Path(options.output) / path.name
        if path in signed:
            raise InvalidInputError(
                f"two requests would have the certificate {path}; give them names of their own"
            )
        try:
            signed[path] = sign_certificate(options.key, federation, key, expiry)
        except InvalidInputError as error:
            raise InvalidInputError(f"{name}: {error}") from error
    for path, certificate in signed.items():
        make_folder(path.parent)
        write_atomic(path, certificate.to_bytes())
    if options.json:
        summary = {
            "authority": public_key_of(options.key).hex(),
            "federation": federation.hex(),
            "expiry": expiry,
            "certificates": {str(path): one.key.hex() for path, one in signed.items()},
        }
        print(json.dumps(summary))
        return 0
    print(f"federation {federation.hex()}, until {_date(expiry)}")
    for path, certificate in signed.items():
        print(f"  {path}: {certificate.key.hex()}")
    return 0


def _show(options: argparse.Namespace) -> int:
    """The code is 1 where the certificate does not hold, as far as that can be told."""
    from pocketquery.client.private.keys import DEVICE_KEY, DeviceKey

    if (options.authority is None) != (options.federation is None):
        raise InvalidInputError(
            "found one of --authority and --federation; a signature is checked with both"
        )
    certificate = _read_certificate(options.certificate)
    wrong = _wrong(certificate, options)
    ours = None
    if options.state is not None:
        ours = DeviceKey.open(Path(options.state) / DEVICE_KEY).public == certificate.key
        if not ours:
            wrong = wrong or "it is for another key than this device's"
    if options.json:
        print(
            json.dumps(
                {
                    "key": certificate.key.hex(),
                    "expiry": certificate.expiry,
                    "signature_checked": options.authority is not None,
                    "for_this_device": ours,
                    "valid": wrong is None,
                    "reason": wrong,
                }
            )
        )
        return 0 if wrong is None else 1
    print(f"{options.certificate}: a certificate of a device key")
    print(f"  key        {certificate.key.hex()}")
    print(f"  until      {_date(certificate.expiry)}")
    if ours is not None:
        print(f"  device     {'this one' if ours else 'another one'}")
    if wrong is not None:
        print(f"  not valid  {wrong}")
        return 1
    checked = "signature not checked (no --authority)" if options.authority is None else "yes"
    print(f"  valid      {checked}")
    return 0


def _budget(options: argparse.Namespace) -> int:
    from pocketquery.client.private.ledger import LEDGER, Ledger, epsilon_of

    check("delta", options.delta, number(above=0, below=1))
    accounts = Ledger(Path(options.state) / LEDGER).accounts()
    figures = {
        federation: {
            "season": one.season,
            "seasons": one.seasons,
            "participations": one.participations,
            "last_round": one.last_masked,
            "epsilon": epsilon_of(one.rho, options.delta),
            "epsilon_ever": epsilon_of(one.rho_ever, options.delta),
            "delta": options.delta,
        }
        for federation, one in accounts.items()
    }
    if options.json:
        print(json.dumps({"federations": figures}))
        return 0
    if not figures:
        print(f"{options.state}: this device was in no private round")
    for federation, used in figures.items():
        print(f"federation {federation}")
        if not used["seasons"]:
            print("  no round with noise, so nothing that a budget counts")
            continue
        print(f"  season        {used['season']}")
        print(f"  took part     {used['participations']} times in it, last in {used['last_round']}")
        print(f"  spent         epsilon {used['epsilon']:.2f} in this season")
        print(f"  spent ever    epsilon {used['epsilon_ever']:.2f} in {used['seasons']} seasons")
        print(f"  at delta      {options.delta:g}")
    return 0


def _wrong(certificate: Certificate, options: argparse.Namespace) -> str | None:
    """Why the certificate does not hold; None where it does, or without a key nobody can say."""
    from pocketquery.client.private.keys import check_certificate, federation_id
    from pocketquery.sdk.bundle.signature import public_key_bytes

    now = time.time()
    if options.authority is None:
        return "it has expired" if now >= certificate.expiry else None
    authority = public_key_bytes(options.authority)  # a wrong key is an error, not a verdict
    try:
        check_certificate(certificate, authority, federation_id(options.federation), now)
    except PocketQueryError as error:
        return str(error)
    return None


def _read_certificate(name: str) -> Certificate:
    from pocketquery.client.private.keys import CERTIFICATE_BYTES, Certificate

    try:
        return Certificate.parse(_read(name, CERTIFICATE_BYTES))
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from error


def _read_request(name: str) -> bytes:
    fields = Fields.of_json(_read(name, _MOST_REQUEST_BYTES), name, most_bytes=_MOST_REQUEST_BYTES)
    fields.choice("schema", [REQUEST_SCHEMA])
    try:
        return bytes.fromhex(fields.text("key", most=64))
    except ValueError as error:
        raise InvalidInputError(
            f"{name}: found a key that is not hexadecimal, expected the file that pocketquery "
            "enrol request wrote"
        ) from error


def _read(name: str, most: int) -> bytes:
    """The file's bytes, one more than ``most`` where there are more."""
    with Path(name).open("rb") as file:
        return file.read(most + 1)


def _date(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
