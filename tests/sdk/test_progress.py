from __future__ import annotations

import io

import pytest

from pocketquery.sdk.indexing.folder_index import FileProgress
from pocketquery.sdk.progress import Progress, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the time is, to be moved by hand."""
    now = [100.0]
    monkeypatch.setattr("pocketquery.sdk.progress.time.monotonic", lambda: now[0])
    return now


def test_the_items_pass_and_the_bar_ends_full() -> None:
    stream = Terminal()
    assert list(progress(["a", "b", "c"], "encode", stream=stream)) == ["a", "b", "c"]
    last = stream.getvalue().rstrip("\n").split("\r")[-1]
    assert last.startswith("encode [" + "#" * 30 + "] 3/3")
    assert "left" in last
    assert stream.getvalue().endswith("\n")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_hidden_it_writes_nothing(stream: io.StringIO) -> None:
    assert list(progress([1, 2], "encode", show=False, stream=stream)) == [1, 2]
    assert stream.getvalue() == ""


def test_no_items_are_no_error() -> None:
    assert list(progress([], "encode", stream=Terminal())) == []


def test_without_a_terminal_a_line_every_half_minute(clock: list[float]) -> None:
    stream = io.StringIO()
    with Progress(100_000, "distil", "step", stream=stream) as shown:
        for _ in range(7):
            clock[0] += 10
            shown.note(f"loss {clock[0]:.0f}")
            shown.update(1000)
    assert stream.getvalue().splitlines() == [
        "distil 3,000/100,000 step  100/s  16 min left  loss 130",
        "distil 6,000/100,000 step  100/s  16 min left  loss 160",
    ]


def test_what_an_earlier_run_did_counts_in_no_rate(clock: list[float]) -> None:
    stream = io.StringIO()
    shown = Progress(1000, "index", "document", done=900, stream=stream)
    clock[0] += 50
    shown.update(50)
    assert stream.getvalue() == "index 950/1,000 document  1.0/s  50 s left\n"


def test_what_has_no_length_has_no_time_left(clock: list[float]) -> None:
    stream = Terminal()
    for _ in progress(iter("ab"), "read", "document", stream=stream):
        clock[0] += 1
    assert stream.getvalue() == "\rread 1 document  1.0/s\rread 2 document  1.0/s\n"


def test_the_time_left_of_a_folder_goes_by_passages(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = FileProgress(4)
    for passages in (10, 10, 980):  # the third file is a log
        shown.will_encode(passages)
    clock[0] += 100
    shown.update(100)
    line = "index 2/4 documents  0.0/s  21 min left  100 passages, 1.0/s\n"
    assert capsys.readouterr().err == line
