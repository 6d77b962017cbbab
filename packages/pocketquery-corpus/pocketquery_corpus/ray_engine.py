"""Shards on Ray Data: a row of the data set is a shard, an actor opens the work once.

A worker that dies is replaced, and what it was doing is done again: one shard each. The actors
write the parts; only numbers and errors come back, so Ray's object store stays all but empty.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pocketquery.sdk import errors
from pocketquery.sdk.errors import MissingExtraError, PocketQueryError
from pocketquery_corpus.engine import Work
from pocketquery_corpus.parts import ShardPart

__all__ = ["run_on_ray"]

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # Ray reports to nobody, unless somebody asks it to
    "RAY_DEDUP_LOGS": "0",  # what it says of dead workers comes at once, not at exit
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # it warns of an actor's arguments, which Ray Data passes
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers see the devices that this process sees
}
_LOOPBACK_ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"
}  # elsewhere, too: no other interface
_START_TRIES = 5  # tries: Ray gives its own processes 15 seconds, which a busy machine may not
_OBJECT_STORE_BYTES = 128 << 20  # bytes of the object store
_MOST_ACTOR_RESTARTS = 5  # of an actor: a shard that ends its process must not do so forever


def run_on_ray(
    parts: Sequence[ShardPart], work: Work, workers: int | None, address: str | None
) -> Iterator[int]:
    """Yield the numbers of ``parts`` as workers make them.

    Ray listens on the loopback interface alone, shows no dashboard, and ends with the iteration; a
    Ray that the calling process runs already is used and left running.

    Args:
        parts: those to make.
        work: pickled to every worker.
        workers: processes; None for one a processor, as far as there are parts.
        address: of a running cluster; None for one of its own.

    Raises:
        MissingExtraError: Ray is not installed.
        PocketQueryError: of the class that a worker raised; or workers died again and again.
    """
    for name, value in (_ENVIRONMENT | ({} if address else _LOOPBACK_ENVIRONMENT)).items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("ray", "./packages/pocketquery-corpus[ray]") from error
    by_number = {one.number: one for one in parts}
    count = min(workers or os.cpu_count() or 1, len(parts))
    with _quiet(ray), _running(ray, count, address):
        rows = ray.data.from_items(
            [{"number": number} for number in by_number], override_num_blocks=len(by_number)
        ).map_batches(
            _Worker,
            fn_constructor_args=(work, by_number),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=count),
            num_cpus=1,
            max_restarts=_MOST_ACTOR_RESTARTS,
            max_task_retries=_MOST_ACTOR_RESTARTS,
        )
        try:
            for row in rows.iter_rows():
                if row["error"]:
                    raise getattr(errors, row["error"])(row["message"])
                yield int(row["number"])
        except (ray.exceptions.RayError, RuntimeError) as error:  # Ray Data raises the latter
            raise PocketQueryError(
                f"Ray ended with {type(error).__name__}: {str(error).strip()[-500:]}; what was "
                "finished is kept, and the same command goes on with the rest"
            ) from error


class _Worker:
    """An actor: makes one part a call."""

    def __init__(self, work: Work, parts: dict[int, ShardPart]) -> None:
        self._work = work
        self._parts = parts
        self._make: Callable[[ShardPart], None] | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        number = int(batch["number"][0])
        name = message = ""
        try:
            # Opened here: an error of the constructor would come back as Ray's.
            self._make = self._make or self._work.open()
            self._make(self._parts[number])
        except PocketQueryError as error:
            name, message = type(error).__name__, str(error)
        return {
            "number": np.array([number]),
            "error": np.array([name]),
            "message": np.array([message]),
        }


@contextlib.contextmanager
def _running(ray: Any, count: int, address: str | None) -> Iterator[None]:
    """Ray, begun and ended here, where the process does not run one."""
    if ray.is_initialized():
        yield
        return
    silent = {"log_to_driver": False, "logging_level": logging.ERROR}
    with contextlib.ExitStack() as stack:
        if address is not None:
            ray.init(address=address, **silent)
        else:
            _begin(ray, count, stack, silent)
        stack.callback(ray.shutdown)  # ends the processes that init began, by their ids
        yield


def _begin(ray: Any, count: int, stack: contextlib.ExitStack, silent: dict[str, Any]) -> None:
    for remaining in reversed(range(_START_TRIES)):
        # In a folder of its own: sockets have short names, and nothing stays behind.
        folder = tempfile.mkdtemp(prefix="pq", dir="/tmp" if os.name == "posix" else None)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            ray.init(
                address="local",
                num_cpus=count,
                object_store_memory=_OBJECT_STORE_BYTES,
                include_dashboard=False,
                _temp_dir=folder,
                **silent,
            )
            return
        except Exception as error:  # Ray has no class for it
            ray.shutdown()
            _end_all(folder)
            if not remaining:
                raise PocketQueryError(
                    f"Ray did not start in {_START_TRIES} tries ({error}); see that this machine "
                    "has processor time and memory to spare, or use the local engine"
                ) from error


def _end_all(folder: str) -> None:
    """End what a start that failed left running: it would take the next one's time."""
    import psutil

    killed = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any(folder in word for word in child.cmdline()):
                child.kill()
                killed.append(child)
    psutil.wait_procs(killed, timeout=10)


@contextlib.contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Ray Data's bars and reports off, and what Ray says of dead workers on stderr."""
    context = ray.data.DataContext.get_current()
    logger = logging.getLogger("ray.data")
    before = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a command's answer may be one JSON object
            yield
    finally:
        context.enable_progress_bars = before[0]
        logger.setLevel(before[1])
