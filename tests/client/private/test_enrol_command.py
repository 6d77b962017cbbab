"""``pocketquery enrol``, through the command line: a device's key, its request, its certificate."""

from __future__ import annotations

import json
import stat
import time
from dataclasses import replace
from pathlib import Path

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


def test_a_request_takes_the_place_of_a_request_alone(
    tmp_path: Path, authority: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request, key = requested(tmp_path, "one")
    other, _ = requested(tmp_path, "two")
    again = ["enrol", "request", "--state", str(tmp_path / "state-one"), "--output"]
    assert main([*again, str(other)]) == 0
    assert other.read_bytes() == request.read_bytes()
    private = authority.read_bytes()
    for place in (authority, tmp_path / "state-one"):
        assert main([*again, str(place)]) == 2
        assert f"{place.name} exists and is not a request" in capsys.readouterr().err
    assert authority.read_bytes() == private
    assert DeviceKey.open(tmp_path / "state-one" / "device.key").public == key.public


def test_from_key_to_certificate(
    tmp_path: Path, authority: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = [requested(tmp_path, name) for name in ("one", "two")]
    capsys.readouterr()
    requests = [str(request) for request, _ in devices]
    before = int(time.time())
    signing = ["enrol", "sign", *requests, "--key", str(authority), "--federation", "clinics"]
    assert main([*signing, "--json"]) == 0
    after = int(time.time())
    summary = json.loads(capsys.readouterr().out)
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
        shown = ["enrol", "show", str(file), "--authority", str(tmp_path / "authority.pub.pem")]
        shown += ["--federation", "clinics", "--state", str(tmp_path / f"state-{name}")]
        assert main(shown) == 0
        printed = capsys.readouterr().out
        assert key.public.hex() in printed
        assert "valid      yes" in printed
        assert "device     this one" in printed
        assert "private" not in request.read_text()


def test_the_key_is_for_its_owner_alone_and_stays_unless_it_is_renewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "new" / "state"
    command = ["enrol", "key", "--state", str(state), "--json"]
    assert main(command) == 0
    printed = json.loads(capsys.readouterr().out)
    path = state / "device.key"
    assert printed == {"path": str(path), "key": DeviceKey.open(path).public.hex()}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert main(command) == 2
    assert "--replace" in capsys.readouterr().err
    assert DeviceKey.open(path).public.hex() == printed["key"]
    assert main([*command, "--replace"]) == 0
    assert DeviceKey.open(path).public.hex() != printed["key"]


def test_a_request_without_a_key_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "a.request"
    assert main(["enrol", "request", "--state", str(tmp_path), "--output", str(output)]) == 2
    assert "make one with: pocketquery enrol key" in capsys.readouterr().err
    assert not output.exists()


def test_certificates_go_to_a_folder_and_have_the_days_that_are_asked(
    tmp_path: Path, authority: Path
) -> None:
    request, _ = requested(tmp_path, "one")
    command = ["enrol", "sign", str(request), "--key", str(authority), "--days", "2"]
    command += ["--federation", "ab" * 16, "--output", str(tmp_path / "a" / "b")]
    assert main(command) == 0
    certificate = Certificate.parse((tmp_path / "a" / "b" / "one.certificate").read_bytes())
    assert 0 <= time.time() + 2 * 86_400 - certificate.expiry < 600
    check_certificate(certificate, public_key_bytes_of(authority), bytes.fromhex("ab" * 16), 0)


def public_key_bytes_of(private: Path) -> bytes:
    return public_key_bytes(private.with_name("authority.pub.pem"))


def test_nothing_is_signed_where_one_request_is_wrong(
    tmp_path: Path, authority: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, _ = requested(tmp_path, "one")
    copy = tmp_path / "copy.request"
    copy.write_bytes(good.read_bytes())
    folder = tmp_path / "other"
    folder.mkdir()
    namesake = requested(folder, "one")[0]
    low = tmp_path / "low.request"
    low.write_text(json.dumps({"schema": "pocketquery-enrolment-request-1", "key": "00" * 32}))
    capsys.readouterr()
    signing = ["enrol", "sign", str(good), "--key", str(authority), "--federation", "clinics"]
    for more, said in [
        ([str(copy)], "ask for the same key"),
        ([str(low)], "low.request: the public key"),
        ([str(namesake), "--output", str(tmp_path)], "names of their own"),
        ([str(tmp_path / "absent")], "absent"),
        (["--days", "0"], "days is 0"),
        (["--days", "100000"], "days is 100000"),
        (["--federation", ""], "name is empty"),
        (["--key", str(good)], "not a readable private key"),
    ]:
        assert main([*signing[:3], *more, *signing[3:]] if more[0][0] != "-" else signing + more)
        assert said in capsys.readouterr().err
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


def test_show_tells_what_is_wrong(
    tmp_path: Path, authority: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = DeviceKey.create(tmp_path / "device.key")
    federation = federation_id("clinics")
    public = str(authority.with_name("authority.pub.pem"))

    def show(name: str, certificate: Certificate, *more: str) -> tuple[int, str]:
        path = tmp_path / name
        path.write_bytes(certificate.to_bytes())
        code = main(["enrol", "show", str(path), *more])
        return code, capsys.readouterr().out

    soon = int(time.time()) + 1000
    good = sign_certificate(PRIVATE, federation, key.public, soon)
    old = sign_certificate(PRIVATE, federation, key.public, 1_000_000_000)
    strange = sign_certificate(bytes(32), federation, key.public, soon)
    other = sign_certificate(PRIVATE, federation, DeviceKey(bytes(32)).public, soon)
    checks = ("--authority", public, "--federation", "clinics")

    code, printed = show("good", good)
    assert (code, "signature not checked" in printed) == (0, True)
    assert show("good", good, *checks)[0] == 0
    code, printed = show("old", old)
    assert (code, "until      2001-09-09 01:46 UTC" in printed) == (1, True)
    assert "expired" in show("old", old, *checks)[1]
    assert show("strange", strange)[0] == 0
    code, printed = show("strange", strange, *checks)
    assert (code, "not by this authority" in printed) == (1, True)
    assert show("good", good, "--authority", public, "--federation", "other")[0] == 1
    code, printed = show("other", other, *checks, "--state", str(tmp_path), "--json")
    assert code == 1
    assert json.loads(printed) == {
        "key": other.key.hex(),
        "expiry": soon,
        "signature_checked": True,
        "for_this_device": False,
        "valid": False,
        "reason": "it is for another key than this device's",
    }


def test_show_refuses_what_it_cannot_check(
    tmp_path: Path, authority: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.certificate"
    path.write_bytes(bytes(99))
    assert main(["enrol", "show", str(path)]) == 2
    assert "a certificate has 100 bytes, found 99" in capsys.readouterr().err
    path.write_bytes(bytes(1000))
    assert main(["enrol", "show", str(path)]) == 2
    assert main(["enrol", "show", str(path), "--federation", "clinics"]) == 2
    assert "--authority and --federation" in capsys.readouterr().err
    path.write_bytes(
        sign_certificate(PRIVATE, bytes(16), DeviceKey(bytes(32)).public, 1).to_bytes()
    )
    command = ["enrol", "show", str(path), "--federation", "clinics", "--authority", str(path)]
    assert main(command) == 2  # the pinned key is unreadable: that is no word on the certificate
    assert "not a readable public key" in capsys.readouterr().err


def test_a_federation_is_named_by_its_id_or_hashed() -> None:
    assert federation_id("AB" * 16) == bytes.fromhex("ab" * 16)
    assert federation_id("clinics").hex() == "28ed403912f26e34b0064c83d82d1c38"
    assert len(federation_id("\u00e9")) == 16


def test_the_user_is_shown_what_rounds_have_cost_in_this_season_and_in_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = ["enrol", "budget", "--state", str(tmp_path)]
    assert main(budget) == 0
    assert "was in no private round" in capsys.readouterr().out
    ledger = Ledger(tmp_path / LEDGER)
    for number, season in enumerate(("spring", "spring", "autumn")):
        noise = Privacy("devices", 2.0, 640, season, 2)
        group = binding_of([member(one) for one in range(4)], 3, 3, privacy=noise)
        ledger.charge(replace(group, round=number))
    assert main(budget) == 0
    said = capsys.readouterr().out
    assert "season        autumn\n  took part     1 times in it, last in 2" in said
    assert main([*budget, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["federations"].values()
    # z = 2 at delta 1e-6: one participation costs 2.42, three in all their seasons 4.46.
    assert found["epsilon"] == pytest.approx(2.42, abs=0.02)
    assert found["epsilon_ever"] == pytest.approx(epsilon_of(3 / 8, 1e-6), abs=0.02)
    assert (found["seasons"], found["participations"]) == (2, 1)
    assert f"spent ever    epsilon {found['epsilon_ever']:.2f} in 2 seasons" in said
    assert main([*budget, "--delta", "1"]) == 2
    assert "delta" in capsys.readouterr().err
