"""An index as tools of an assistant, asked by the protocol's own client over stdin and stdout."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from pocketquery.sdk.cli import main

NOTES = {
    "garden/pump.md": "# Pump restart\n\n## Steps\n\nOpen the red valve, then press get_ready().\n",
    "garden/trees.md": "# Trees\n\n## Apples\n\nPruned in March.\n\n## Pears\n\nPruned in April.\n",
    "train.md": "# Trains\n\nThe train to Oslo leaves at seven.\n",
}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Of three notes, built by the command."""
    for name, text in NOTES.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert main(["index", str(tmp_path / "notes"), "--output", str(tmp_path / "index")]) == 0
    return tmp_path / "index"


def asked(index: Path, questions: Callable[[Client], Awaitable[Any]]) -> Any:
    """What a client gets of ``pocketquery mcp``, started as an assistant starts it."""
    words = ["-m", "pocketquery.sdk", "mcp", "--index", str(index)]
    parameters = StdioServerParameters(command=sys.executable, args=words)

    async def ask() -> Any:
        async with Client(parameters) as client:
            return await questions(client)

    return asyncio.run(ask())


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    assert answer.structured_content is not None
    return answer.structured_content["result"]


def test_an_assistant_searches_reads_and_lists(index: Path) -> None:
    async def questions(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["search", "get", "list"]
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        (hit,) = await call(client, "search", query="when must I be at the station", k=1)
        assert hit["metadata"]["path"] == "train.md"
        assert "Oslo" in hit["text"]
        assert hit["score"] > 0
        (hit,) = await call(
            client, "search", query="pruned", k=1, filter={"path": "garden/trees.md"}
        )
        around = await call(client, "get", id=hit["id"], around=5)
        assert [one["metadata"]["path"] for one in around] == ["garden/trees.md"] * len(around)
        assert hit["id"] in [one["id"] for one in around]
        assert {"March", "April"} <= set(
            " ".join(one["text"] for one in around).replace(".", "").split()
        )
        files = await call(client, "list", prefix="garden/")
        assert [file["path"] for file in files] == ["garden/pump.md", "garden/trees.md"]
        assert [file["title"] for file in files] == ["Pump restart", "Trees"]
        assert (await call(client, "list", offset=2))[0]["path"] == "train.md"

    asked(index, questions)


def test_what_an_assistant_asks_wrongly_is_told_and_the_server_goes_on(index: Path) -> None:
    async def questions(client: Client) -> None:
        for tool, arguments, why in (
            ("search", {"query": "valve", "k": 0}, "k is 0"),
            ("search", {"query": "valve", "filter": {"path": {"$like": "x"}}}, "$like"),
            ("search", {"query": "valve", "filter": {"paht": "x"}}, '(did you mean "path"?)'),
            ("get", {"id": "nothing"}, "no passage has the id 'nothing'"),
            ("get", {"id": "train.md", "around": -1}, "around is -1"),
        ):
            answer = await client.call_tool(tool, arguments)
            assert answer.is_error
            assert why in str(answer.content)
        assert await call(client, "search", query="valve")

    asked(index, questions)


def test_an_index_built_again_meanwhile_is_the_one_searched(index: Path) -> None:
    notes = index.with_name("notes")

    async def questions(client: Client) -> None:
        (notes / "tea.md").write_text("# Tea\n\nGreen tea: 80 degrees.\n", "utf-8")
        assert await asyncio.to_thread(main, ["index", str(notes), "--output", str(index)]) == 0
        assert (await call(client, "search", query="tea", k=1))[0]["metadata"]["path"] == "tea.md"

    asked(index, questions)


def test_a_missing_index_is_told_before_anything_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", "--index", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
