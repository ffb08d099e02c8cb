"""Statements on the tables that Citus may distribute have no form that it refuses, or answers differently from PostgreSQL."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gridfleet
from gridfleet.domains.telemetry.hypertables import HYPERTABLES

SOURCE = Path(gridfleet.__file__).parent
TABLE = rf"(?:{'|'.join(table.name for table in HYPERTABLES)}|\{{(?:level|kept)\.table\}})"
"""A distributed table, also as the table of a level or of retention."""
OF_ONE_SHARD = re.compile(r"\{(?:part\.)?condition\}|\{0\}")
"""What `by_shard` adds to a statement: directly, or as a parameter of `format`."""
CORRELATED = re.compile(rf"FROM {TABLE}(?: \w+)? WHERE [^()]*?\bsource_id = [a-z]\.", re.DOTALL)
FORMS = {
    "a subquery for each source, as in LATERAL, is executed for each shard: see by_shard": lambda text: (
        CORRELATED.search(text) and not OF_ONE_SHARD.search(text)
    ),
    "an empty select list": lambda text: re.search(rf"SELECT FROM {TABLE}", text),
    "a lock of rows": lambda text: re.search(rf"{TABLE}.* FOR (NO KEY )?(UPDATE|(KEY )?SHARE)", text, re.DOTALL),
}


def refused(source: str) -> list[str]:
    """Return what is refused in the source of a module."""
    tree = ast.parse(source)
    found = [
        f"{node.lineno}: {form}"
        for node, text in statements(tree)
        if re.search(TABLE, text)
        for form, is_refused in FORMS.items()
        if is_refused(text)
    ]
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            writes = any(re.search(rf"INSERT INTO {TABLE}", text) for _, text in statements(function))
            if writes and any(isinstance(node, ast.Attribute) and node.attr == "rowcount" for node in ast.walk(function)):
                found.append(f"{function.lineno}: rowcount of INSERT … ON CONFLICT counts what was selected: use RETURNING")
    return found


def statements(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield each text, with the expressions in braces where they are inserted."""
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if node in parts:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value
        elif isinstance(node, ast.JoinedStr):
            pieces = (
                piece.value if isinstance(piece, ast.Constant) else f"{{{ast.unparse(piece.value)}}}"  # type: ignore[attr-defined]
                for piece in node.values
            )
            yield node, "".join(map(str, pieces))


def test_no_statement_has_a_form_that_citus_refuses() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{one}" for path in SOURCE.rglob("store.py") for one in refused(path.read_text("utf-8"))
    }
    assert not found


@pytest.mark.parametrize(
    ("statement", "form"),
    [
        (
            "FROM unnest(%s) AS s (id) CROSS JOIN LATERAL (SELECT time FROM telemetry_frame WHERE source_id = s.id LIMIT 1)",
            "by_shard",
        ),
        ("SELECT min(x) FROM {kept.table} WHERE time > 1 AND source_id = s.id", "by_shard"),
        ("SELECT count(*) FROM (SELECT FROM telemetry_minute LIMIT 3) AS f", "empty select list"),
        ("SELECT time FROM telemetry_frame f JOIN telemetry_source s USING (id) FOR KEY SHARE OF s", "lock"),
    ],
)
def test_the_forms_are_found(statement: str, form: str) -> None:
    [found] = refused(f"query = f{statement!r}")
    assert form in found


def test_a_statement_of_one_shard_and_a_counted_insertion() -> None:
    assert refused('query = f"SELECT 1 FROM telemetry_frame WHERE source_id = s.id{part.condition} LIMIT 1"') == []
    [found] = refused(
        "def write(db):\n    cursor = db.execute('INSERT INTO telemetry_frame SELECT 1')\n    return cursor.rowcount"
    )
    assert "RETURNING" in found
