"""Following a folder: its index is brought up to date whenever files change."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from pocketquery.sdk.errors import MissingExtraError, PocketQueryError
from pocketquery.sdk.files import real_path

__all__ = ["load_watchfiles", "watch_folder"]

_DEBOUNCE_MS = 2000  # a save of many files is one update
_STEP_MS = 300  # without a change, after which an update begins
_WAKE_MS = 2000
_LOOK_ANYWAY = 30  # wakes without a change; not every file system reports its changes


def load_watchfiles() -> ModuleType:
    """The package that reports changes.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import watchfiles
    except ImportError as error:
        raise MissingExtraError.of("watchfiles", "files") from error
    return watchfiles


def watch_folder(
    folder: Path | str,
    index: Path | str,
    update: Callable[[], object],
    failed: Callable[[Exception], object],
) -> None:
    """Call ``update`` once the folder is watched, and after each change in it, until Ctrl-C or
    SIGTERM.

    Args:
        folder: what is watched, with all below it.
        index: changes of it are none.
        update: brings it up to date.
        failed: called with what an update could not do; the next change tries again.

    Raises:
        MissingExtraError: the package watchfiles is not installed.
        PocketQueryError: the folder is gone.
    """
    watchfiles = load_watchfiles()
    place = real_path(index)
    own = (place, place.with_name(f".{place.name}.building"), place.with_name(f".{place.name}.old"))

    def counts(_: object, name: str) -> bool:
        return not any(Path(name) == one or one in Path(name).parents for one in own)

    with contextlib.suppress(KeyboardInterrupt), _interrupted_by_sigterm():
        quiet = _LOOK_ANYWAY  # what changed before the folder was watched is seen at the first wake
        for changes in watchfiles.watch(
            real_path(folder),
            watch_filter=counts,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            rust_timeout=_WAKE_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        ):
            quiet += 1
            if not changes and quiet < _LOOK_ANYWAY:
                continue
            quiet = 0
            try:
                update()
            except (PocketQueryError, OSError) as error:
                if not Path(folder).exists():
                    raise
                failed(error)


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM, by which services are stopped, does what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
