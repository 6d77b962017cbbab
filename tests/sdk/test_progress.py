from __future__ import annotations

import io

from pocketquery.sdk.progress import progress


def test_the_items_pass_and_the_bar_ends_full() -> None:
    stream = io.StringIO()
    assert list(progress(["a", "b", "c"], "encode", stream=stream)) == ["a", "b", "c"]
    last = stream.getvalue().rstrip("\n").split("\r")[-1]
    assert last.startswith("encode [" + "#" * 30 + "] 3/3")
    assert "left" in last
    assert stream.getvalue().endswith("\n")


def test_hidden_it_writes_nothing() -> None:
    stream = io.StringIO()
    assert list(progress([1, 2], "encode", show=False, stream=stream)) == [1, 2]
    assert stream.getvalue() == ""


def test_no_items_are_no_error() -> None:
    assert list(progress([], "encode", stream=io.StringIO())) == []
