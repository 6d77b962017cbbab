"""Settings of every test process: quiet libraries, one thread, no network."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from pocketquery.sdk.errors import MissingExtraError

if TYPE_CHECKING:
    from tests.shell import Shell

# A few examples, the same at every run, so that a change fails by its own fault. To look for new
# ones: HYPOTHESIS_PROFILE=search make test
settings.register_profile("fast", max_examples=40, derandomize=True, deadline=None)
settings.register_profile("search", max_examples=400, derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# Before any library reads them. The models of the tests are so small that threads only wait for
# each other, and a hub must never be asked.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"

_NO_OPTIMUM = "optimum-onnx cannot be imported"  # an error's words, or a command's on stderr


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that signs is skipped where only the base install is, and one that exports where
    transformers is 5: optimum reads 4 alone."""
    report = yield
    error, reason = call.excinfo and call.excinfo.value, None
    if isinstance(error, MissingExtraError) and find_spec("cryptography") is None:
        reason = "needs an extra"
    elif error is not None and _NO_OPTIMUM in f"{error}\n{report.capstderr}":
        reason = "optimum needs transformers 4" if version("transformers") >= "5" else None
    if reason:
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {reason}")
    return report


@pytest.fixture(autouse=True, scope="session")
def only_this_machine() -> Iterator[None]:
    """What connects to another machine, or asks for its address, fails and says where to."""

    def guarded(name: str, host_of: Any) -> Any:
        plain = getattr(owner[name], name)

        def checked(*arguments: Any, **options: Any) -> Any:
            host = host_of(*arguments)
            if host not in ("localhost", "127.0.0.1", "::1", "", "0.0.0.0", None):
                raise AssertionError(f"a test asked the network: {name} {host}")
            return plain(*arguments, **options)

        return checked

    def connected(_: socket.socket, address: Any) -> Any:
        return address[0] if isinstance(address, tuple) else None  # else a Unix socket's path

    owner: dict[str, Any] = {
        "connect": socket.socket,
        "connect_ex": socket.socket,
        "getaddrinfo": socket,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded("connect", connected))
        patch.setattr(socket.socket, "connect_ex", guarded("connect_ex", connected))
        patch.setattr(socket, "getaddrinfo", guarded("getaddrinfo", lambda host, *_: host))
        yield


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """``shell("search", index, "a query").out``"""
    from tests.shell import Shell

    return Shell(capsys)
