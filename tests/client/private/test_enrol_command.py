"""``pocketquery enrol``, through the command line: a device's key, its request, its certificate."""

from __future__ import annotations

import json
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.keys import (
    Certificate,
    DeviceKey,
    check_certificate,
    federation_id,
    sign_certificate,
)
from pocketquery.client.private.ledger import LEDGER, Ledger, epsilon_of
from pocketquery.sdk.bundle.signature import public_key_bytes
from pocketquery.sdk.cli import main
from tests.client.private.group import binding_of, member
from tests.shell import Shell

PRIVATE = bytes(range(32))


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The authority's PEM files, as openssl writes them: authority.pem and authority.pub.pem."""
    key = Ed25519PrivateKey.from_private_bytes(PRIVATE)
    path = tmp_path / "authority.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "authority.pub.pem").write_bytes(public)
    return path


def requested(folder: Path, name: str) -> tuple[Path, DeviceKey]:
    """A device's request, and its key."""
    state = folder / f"state-{name}"
    assert main(["enrol", "key", "--state", str(state)]) == 0
    request = folder / f"{name}.request"
    assert main(["enrol", "request", "--state", str(state), "--output", str(request)]) == 0
    return request, DeviceKey.open(state / "device.key")


def test_a_request_replaces_only_a_request(tmp_path: Path, authority: Path, shell: Shell) -> None:
    request, key = requested(tmp_path, "one")
    other, _ = requested(tmp_path, "two")
    again = ["enrol", "request", "--state", tmp_path / "state-one", "--output"]
    shell(*again, other)
    assert other.read_bytes() == request.read_bytes()
    private = authority.read_bytes()
    for place in (authority, tmp_path / "state-one"):
        shell(*again, place, code=2, says=f"{place.name} exists and is not a request")
    assert authority.read_bytes() == private
    assert DeviceKey.open(tmp_path / "state-one" / "device.key").public == key.public


def test_from_key_to_certificate(tmp_path: Path, authority: Path, shell: Shell) -> None:
    devices = [requested(tmp_path, name) for name in ("one", "two")]
    requests = [request for request, _ in devices]
    before = int(time.time())
    signing = ["enrol", "sign", *requests, "--key", authority, "--federation", "clinics"]
    summary = json.loads(shell(*signing, "--json").out)
    after = int(time.time())
    assert summary["federation"] == federation_id("clinics").hex()
    assert before + 90 * 86_400 <= summary["expiry"] <= after + 90 * 86_400
    public = public_key_bytes(tmp_path / "authority.pub.pem")
    assert summary["authority"] == public.hex()
    for (request, key), name in zip(devices, ("one", "two"), strict=True):
        file = tmp_path / f"{name}.certificate"
        assert summary["certificates"][str(file)] == key.public.hex()
        assert file.stat().st_size == 100
        certificate = Certificate.parse(file.read_bytes())
        assert (certificate.key, certificate.expiry) == (key.public, summary["expiry"])
        check_certificate(certificate, public, federation_id("clinics"), before)
        show = ["enrol", "show", file, "--authority", tmp_path / "authority.pub.pem"]
        shown = shell(*show, "--federation", "clinics", "--state", tmp_path / f"state-{name}")
        for line in (key.public.hex(), "valid      yes", "device     this one"):
            assert line in shown.out
        assert "private" not in request.read_text()


def test_the_key_is_private_and_stays_unless_it_is_renewed(tmp_path: Path, shell: Shell) -> None:
    state = tmp_path / "new" / "state"
    command = ["enrol", "key", "--state", state, "--json"]
    printed = json.loads(shell(*command).out)
    path = state / "device.key"
    assert printed == {"path": str(path), "key": DeviceKey.open(path).public.hex()}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    shell(*command, code=2, says="--replace")
    assert DeviceKey.open(path).public.hex() == printed["key"]
    shell(*command, "--replace")
    assert DeviceKey.open(path).public.hex() != printed["key"]


def test_a_request_without_a_key_says_how_to_make_one(tmp_path: Path, shell: Shell) -> None:
    output = tmp_path / "a.request"
    request = ["enrol", "request", "--state", tmp_path, "--output", output]
    shell(*request, code=2, says="make one with: pocketquery enrol key")
    assert not output.exists()


def test_certificates_go_to_a_folder_for_the_days_asked(tmp_path: Path, authority: Path) -> None:
    request, _ = requested(tmp_path, "one")
    command = ["enrol", "sign", str(request), "--key", str(authority), "--days", "2"]
    command += ["--federation", "ab" * 16, "--output", str(tmp_path / "a" / "b")]
    assert main(command) == 0
    certificate = Certificate.parse((tmp_path / "a" / "b" / "one.certificate").read_bytes())
    assert 0 <= time.time() + 2 * 86_400 - certificate.expiry < 600
    public = public_key_bytes(authority.with_name("authority.pub.pem"))
    check_certificate(certificate, public, bytes.fromhex("ab" * 16), 0)


def test_nothing_is_signed_where_one_is_wrong(
    tmp_path: Path, authority: Path, shell: Shell
) -> None:
    good, _ = requested(tmp_path, "one")
    copy = tmp_path / "copy.request"
    copy.write_bytes(good.read_bytes())
    folder = tmp_path / "other"
    folder.mkdir()
    namesake = requested(folder, "one")[0]
    low = tmp_path / "low.request"
    low.write_text(json.dumps({"schema": "pocketquery-enrolment-request-1", "key": "00" * 32}))
    cases: list[tuple[list[object], list[object], str]] = [
        ([copy], [], "ask for the same key"),
        ([low], [], "low.request: the public key"),
        ([namesake], ["--output", tmp_path], "names of their own"),
        ([tmp_path / "absent"], [], "absent"),
        ([], ["--days", 0], "days is 0"),
        ([], ["--days", 100000], "days is 100000"),
        ([], ["--federation", ""], "name is empty"),
        ([], ["--key", good], "not a readable private key"),
    ]
    options = ["--key", authority, "--federation", "clinics"]
    for requests, more, message in cases:
        shell("enrol", "sign", good, *requests, *options, *more, code=2, says=message)
    assert not list(tmp_path.rglob("*.certificate"))


@given(
    st.binary(max_size=300)
    | st.builds(
        lambda schema, key: json.dumps({"schema": schema, "key": key}).encode(),
        st.sampled_from(["pocketquery-enrolment-request-1", "x"]),
        st.none() | st.text(max_size=70) | st.sampled_from(["7a" * 31, "7a" * 33, "zz" * 32]),
    )
)
def test_what_is_no_request_is_an_error_that_names_it(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("wrong")
    path = folder / "a.request"
    path.write_bytes(data)
    command = ["enrol", "sign", str(path), "--key", PRIVATE.hex(), "--federation", "clinics"]
    assert main(command) == 2
    assert [file.name for file in folder.iterdir()] == ["a.request"]


def test_show_tells_what_is_wrong(tmp_path: Path, authority: Path, shell: Shell) -> None:
    key = DeviceKey.create(tmp_path / "device.key")
    federation = federation_id("clinics")
    public = authority.with_name("authority.pub.pem")

    def show(certificate: Certificate, options: tuple[object, ...], **ends: Any) -> str:
        path = tmp_path / "a.certificate"
        path.write_bytes(certificate.to_bytes())
        return shell("enrol", "show", path, *options, **ends).out

    soon = int(time.time()) + 1000
    good = sign_certificate(PRIVATE, federation, key.public, soon)
    old = sign_certificate(PRIVATE, federation, key.public, 1_000_000_000)
    strange = sign_certificate(bytes(32), federation, key.public, soon)
    other = sign_certificate(PRIVATE, federation, DeviceKey(bytes(32)).public, soon)
    checks = ("--authority", public, "--federation", "clinics")
    not_ours = ("--authority", public, "--federation", "other")
    show(good, (), says="signature not checked")
    show(good, checks)
    show(old, (), code=1, says="until      2001-09-09 01:46 UTC")
    show(old, checks, code=1, says="expired")
    show(strange, ())
    show(strange, checks, code=1, says="not by this authority")
    show(good, not_ours, code=1)
    assert json.loads(show(other, (*checks, "--state", tmp_path, "--json"), code=1)) == {
        "key": other.key.hex(),
        "expiry": soon,
        "signature_checked": True,
        "for_this_device": False,
        "valid": False,
        "reason": "it is for another key than this device's",
    }


def test_show_refuses_what_it_cannot_check(tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "a.certificate"
    sound = sign_certificate(PRIVATE, bytes(16), DeviceKey(bytes(32)).public, 1).to_bytes()
    federation = ("--federation", "clinics")
    for data, options, message in (
        (bytes(99), (), "a certificate has 100 bytes, found 99"),
        (bytes(1000), (), "a certificate has 100 bytes"),
        (bytes(1000), federation, "--authority and --federation"),
        # The pinned key is unreadable: that is no word on the certificate.
        (sound, (*federation, "--authority", path), "not a readable public key"),
    ):
        path.write_bytes(data)
        shell("enrol", "show", path, *options, code=2, says=message)


def test_a_federation_is_named_by_its_id_or_hashed() -> None:
    assert federation_id("AB" * 16) == bytes.fromhex("ab" * 16)
    assert federation_id("clinics").hex() == "28ed403912f26e34b0064c83d82d1c38"
    assert len(federation_id("\u00e9")) == 16


def test_the_user_is_shown_what_rounds_have_cost(tmp_path: Path, shell: Shell) -> None:
    """In this season and in all."""
    budget = ["enrol", "budget", "--state", tmp_path]
    shell(*budget, says="was in no private round")
    ledger = Ledger(tmp_path / LEDGER)
    for number, season in enumerate(("spring", "spring", "autumn")):
        noise = Privacy("devices", 2.0, 640, season, 2)
        group = binding_of([member(one) for one in range(4)], 3, 3, privacy=noise)
        ledger.charge(replace(group, round=number))
    printed = shell(*budget, says="season        autumn\n  took part     1 times in it, last in 2")
    (found,) = json.loads(shell(*budget, "--json").out)["federations"].values()
    # z = 2 at delta 1e-6: one participation costs 2.42, three in all their seasons 4.46.
    assert found["epsilon"] == pytest.approx(2.42, abs=0.02)
    assert found["epsilon_ever"] == pytest.approx(epsilon_of(3 / 8, 1e-6), abs=0.02)
    assert (found["seasons"], found["participations"]) == (2, 1)
    assert f"spent ever    epsilon {found['epsilon_ever']:.2f} in 2 seasons" in printed.out
    shell(*budget, "--delta", 1, code=2, says="delta")
