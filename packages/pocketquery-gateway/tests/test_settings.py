"""What a gateway's configuration may say."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_gateway.serving import run_gateway
from pocketquery_gateway.settings import GatewaySettings

NAMES = [one.name.replace("_", "-") for one in dataclasses.fields(GatewaySettings)]
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.text())
)
SHORT = Path("/tmp")


def test_a_file_is_read_and_paths_are_from_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(
        'folder = "files"\nlisten = "0.0.0.0:8443"\ncertificate = "c.pem"\nkey = "k.pem"\n'
        'origins = ["https://app.example.org"]\nuploads-per-day = 3\n'
    )
    found = GatewaySettings.read(path)
    assert found.folder == tmp_path / "files"
    assert (found.certificate, found.key) == (str(tmp_path / "c.pem"), str(tmp_path / "k.pem"))
    assert found.address("listen") == ("0.0.0.0", 8443)
    assert found.origins == ("https://app.example.org",)
    assert found.uploads_per_day == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "found no folder"),
        ({"folder": ""}, "found no folder"),
        ({"folder": 3}, "folder is 3"),
        ({"folder": "f", "certificate": 3, "key": "k"}, "certificate is 3"),
        ({"folder": "f", "authorities": [8443]}, "one of authorities is 8443"),
        ({"folder": "f", "port": 1}, 'the gateway.s configuration has no setting "port"'),
        ({"folder": "f", "listen": "0.0.0.0:80"}, "devices would talk to it unencrypted"),
        ({"folder": "f", "listen": "localhost"}, "listen is 'localhost', expected host:port"),
        ({"folder": "f", "listen": "localhost:70000"}, "expected host:port"),
        ({"folder": "f", "metrics": "9464"}, "metrics is '9464', expected host:port"),
        ({"folder": "f", "certificate": "c.pem"}, "found one of certificate and key"),
        ({"folder": "f" * 120}, "too long for a socket"),
        ({"folder": "f", "uploads-per-day": 0}, "uploads.per.day is 0"),
        ({"folder": "f", "lease-seconds": float("nan")}, "lease.seconds is nan"),
        ({"folder": "f", "origins": "https://a.example"}, "origins is"),
        ({"folder": "f", "listen": "localhost:" + "8" * 5000}, "8{20}.*, expected host:port"),
        ({"folder": "f", "listen": "a\0b:80"}, "expected host:port"),
        ({"folder": "\0"}, "expected a path, without a zero character"),
        ({"folder": "f", "certificate": "\0", "key": "k"}, "certificate is .*expected a path"),
        *(
            ({"folder": "f", "origins": ["https://a.example", one]}, "one of origins is")
            for one in ("https://b.example/", "https://b.example/app", "b.example",
                        "https://B.example", "https://b.example:443", "http://b.example:80",
                        "https://b.example:99999", "https://u@b.example", "https://b c", "")
        ),
        *(
            ({"folder": "f", "authorities": ["a.example:8443", one]}, "one of authorities is")
            for one in ("https://b.example", "b.example/", "b.example:", "b.example:70000",
                        "::1", "b c", "")
        ),
        *(
            ({"folder": "f", "trusted-proxies": ["127.0.0.1", one]}, "one of trusted-proxies is")
            for one in ("10.0.0.0/33", "10.0.0.1/8", "localhost", "proxy.example", "*", "")
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        GatewaySettings.of(given, SHORT)


def test_what_a_browser_a_device_and_a_proxy_say_is_taken() -> None:
    origins = ["https://app.example.org", "http://127.0.0.1:8000", "http://[::1]:81", "*", "null",
               "https://b.example:80", "capacitor://localhost"]  # fmt: skip
    authorities = ["Gateway.example.org:8443", "127.0.0.1", "[::1]:8080", "gateway"]
    proxies = ["127.0.0.1", "::1", "10.0.0.0/8", "fd00::/8"]
    given = {"folder": "f", "origins": origins, "authorities": authorities}
    found = GatewaySettings.of(given | {"trusted-proxies": proxies, "listen": "::1:80"}, SHORT)
    assert (found.origins, found.authorities) == (tuple(origins), tuple(authorities))
    assert found.trusted_proxies == tuple(proxies)
    assert found.address("listen") == ("::1", 80)
    assert GatewaySettings.of({"folder": "f", "trusted-proxies": ["*"]}, SHORT)


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    settings = GatewaySettings.of(
        {"folder": "f", "listen": "127.0.0.1:0", "certificate": "c.pem", "key": "k.pem"}, tmp_path
    )
    (tmp_path / "k.pem").write_text("no key")
    with pytest.raises(InvalidInputError, match=r"certificate is .*c\.pem, which cannot be read"):
        run_gateway(settings)
    assert not (tmp_path / "f").exists()
    (tmp_path / "c.pem").write_text("no certificate")
    with pytest.raises(InvalidInputError, match=r"c\.pem and key .*k\.pem cannot be used"):
        run_gateway(settings)


def test_a_file_that_is_not_there_or_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    with pytest.raises(InvalidInputError, match=r"gateway\.toml cannot be read as TOML"):
        GatewaySettings.read(path)
    path.write_bytes(b"folder = \xff")
    with pytest.raises(InvalidInputError, match=r"gateway\.toml cannot be read as TOML"):
        GatewaySettings.read(path)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_any_values_are_settings_or_an_error_of_ours(given: dict[str, Any]) -> None:
    try:
        found = GatewaySettings.of({"folder": "f"} | given, SHORT)
    except InvalidInputError:
        return
    assert found.address("listen")[0]
