"""``pocketquery serve``: the page of one's own index, and the files that its results open."""

from __future__ import annotations

import http.client
import socket
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketquery.sdk.bundle.installed import DEFAULT_BUNDLE
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import ArtifactNotFoundError, PocketQueryWarning
from pocketquery.sdk.serving.site import PAGE
from tests.examples.web_scripts import browser, built, seen

in_checkout = pytest.mark.skipif(
    not (PAGE / "index.html").is_file(), reason="the page is not in an installed package"
)

NOTES = {
    "garden/pump.md": b"# Pump restart\n\n## Steps to-day\n\nOpen the red valve: get_ready().\n",
    "tr ain.html": b"<title>Trains</title><script>document.title = 'ran'</script><p>Oslo at seven.",
    "old.txt": "Grüße vom Gärtner, schöne Äpfel in der Küche.\n".encode("cp1252"),
}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Of three notes; beside them files that the index does not name."""
    for name, data in NOTES.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PocketQueryWarning)  # a note is in German
        assert main(["index", str(tmp_path / "notes"), "--output", str(tmp_path / "index")]) == 0
    (tmp_path / "notes" / "later.md").write_text("not indexed", "utf-8")
    (tmp_path / "secret.md").write_text("secret", "utf-8")
    return tmp_path / "index"


@pytest.fixture
def port(index: Path) -> Iterator[int]:
    """Of a server of the page in this process."""
    from pocketquery.sdk.serving.site import Site, make_server

    site = Site(Path(DEFAULT_BUNDLE), index, texts=index.with_name("notes"))
    with make_server(site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def ask(port: int, path: str, host: str | None = None) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers={"Host": host} if host else {})
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response, data


@built
@in_checkout
def test_a_file_that_the_index_names_opens_as_plain_text(port: int) -> None:
    for name, shown in (
        ("garden/pump.md", NOTES["garden/pump.md"]),
        ("tr%20ain.html", NOTES["tr ain.html"]),
        ("old.txt", "Grüße vom Gärtner, schöne Äpfel in der Küche.\n".encode()),
    ):
        response, data = ask(port, f"/open/{name}")
        assert (response.status, data) == (200, shown)
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        policy = response.headers["Content-Security-Policy"]
        assert policy == "default-src 'none'; frame-ancestors 'none'; sandbox"


@built
@in_checkout
def test_nothing_else_opens(port: int, index: Path) -> None:
    notes = index.with_name("notes")
    (notes / "old.txt").unlink()
    (notes / "old.txt").symlink_to(index.with_name("secret.md"))  # a link that leads out
    for path in (
        "/open/", "/open/later.md", "/open/old.txt", "/open/garden", "/open/../secret.md",
        "/open/%2e%2e/secret.md", "/open/garden/../garden/pump.md", f"/open/{notes}/later.md",
        "/garden/pump.md", "/open/garden%2fpump.md%00",
    ):  # fmt: skip
        assert ask(port, path)[0].status == 404, path
    for host in ("elsewhere.example", "127.0.0.1.elsewhere.example"):
        response, data = ask(port, "/open/garden/pump.md", host)
        assert response.status == 421
        assert b"valve" not in data


def test_what_is_missing_is_told(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pocketquery.sdk.serving.site import Site

    with pytest.raises(ArtifactNotFoundError, match="npm run build"):
        Site(Path(DEFAULT_BUNDLE), index, page=tmp_path / "nowhere")
    assert main(["serve", "--index", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("pocketquery: error: there is no index at")
    assert main(["serve", "--index", str(index), "--gateway", "ftp://x"]) == 2
    assert "--gateway is 'ftp://x'" in capsys.readouterr().err


@built
@in_checkout
def test_a_port_in_use_is_told(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--index", str(index), "--port", port]) == 2
    assert f"port {port} cannot be used" in capsys.readouterr().err


@pytest.mark.slow
@built
@browser
def test_a_result_shows_its_file_and_heading_and_opens_there(index: Path) -> None:
    found = seen("web_serve.mjs", site=["--index", index], query="get_ready")
    assert found["errors"] == []
    assert found["shown"].startswith("garden › pump.md\nEnglish\n\nPump restart › Steps to-day")
    assert found["marked"] == ["get_ready"]
    assert found["link"] == "open/garden/pump.md#:~:text=Steps%20to%2Dday"
    assert found["text"] == NOTES["garden/pump.md"].decode()
