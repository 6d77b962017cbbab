"""Pages of other origins: none may read an answer unless the settings name it."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_gateway import SmallDevice, opened

ORIGIN = "https://app.example.org"
SIGNED = "content-digest,content-type,if-none-match,pocketquery-figures,signature,signature-input"


@pytest.mark.parametrize("path", ["/v1/device", "/v1/rounds/3/update", "/v1/rounds/3/declined"])
def test_a_page_that_is_named_may_send_what_a_device_sends(tmp_path: Path, path: str) -> None:
    with opened(tmp_path, origins=(ORIGIN,)) as at:
        asked = {
            "origin": ORIGIN,
            "access-control-request-method": "PUT",
            "access-control-request-headers": SIGNED,
        }
        found = at.client.request("OPTIONS", path, headers=asked)
        assert found.status_code == 200
        assert found.headers["access-control-allow-origin"] == ORIGIN
        assert "PUT" in found.headers["access-control-allow-methods"]
        allowed = found.headers["access-control-allow-headers"].lower().replace(" ", "").split(",")
        assert set(SIGNED.split(",")) <= set(allowed)
        assert "access-control-allow-credentials" not in found.headers
        other = at.client.request("OPTIONS", path, headers=asked | {"origin": "https://else.test"})
        assert other.status_code == 400
        assert "access-control-allow-origin" not in other.headers


def test_a_page_reads_answers_and_refusals_with_what_it_needs_of_them(tmp_path: Path) -> None:
    with opened(tmp_path, origins=(ORIGIN,)) as at:
        device = SmallDevice(at)
        signed = device.signed("GET", "/v1/offer") | {"origin": ORIGIN}
        for headers, status in ((signed, 403), ({"origin": ORIGIN}, 401)):
            found = at.client.get("/v1/offer", headers=headers)
            assert found.status_code == status
            assert found.headers["access-control-allow-origin"] == ORIGIN
            exposed = found.headers["access-control-expose-headers"].replace(" ", "").split(",")
            assert {"date", "etag", "retry-after"} <= set(exposed)
        other = at.client.get("/v1/health", headers={"origin": "https://else.test"})
        assert "access-control-allow-origin" not in other.headers


def test_by_default_no_page_may(tmp_path: Path) -> None:
    with opened(tmp_path) as at:
        found = at.client.get("/v1/health", headers={"origin": ORIGIN})
        assert found.status_code == 200
        assert not [name for name in found.headers if name.startswith("access-control")]
