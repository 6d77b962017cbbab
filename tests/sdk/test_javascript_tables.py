from __future__ import annotations

from tests.sdk.javascript_tables import TARGET, tables


def test_the_javascript_tables_are_those_of_python() -> None:
    assert TARGET.read_text(encoding="utf-8") == tables(), (
        "run: python -m tests.sdk.javascript_tables"
    )
