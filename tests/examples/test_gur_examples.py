"""The examples of GUR's uses, run as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.tiny_models import bert_teacher, sentences

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_query_expansion(tmp_path: Path) -> None:
    """In a process and a folder of its own: it trains, saves, loads, writes and searches."""
    bert_teacher(layers=1, width=32).save(tmp_path / "start")
    rows = [{"_id": str(i), "title": f"T{i}", "sentences": sentences(60)[i::20]} for i in range(20)]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = ("castle of the king", "sugar")
    options = ("--init", "./start", "--steps", "5")
    result = subprocess.run(
        [sys.executable, EXAMPLES / "query_expansion.py", "documents.jsonl", *queries, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    places = [lines.index(query) for query in queries]
    for block in (lines[places[0] : places[1]], lines[places[1] :]):
        assert 1 <= len([line for line in block if line.endswith(" a token)")]) <= 3
        assert block[-2].startswith("  as it is: T")
        assert block[-1].startswith("  expanded: T")
    assert (tmp_path / "my-gur" / "infilling.safetensors").is_file()
