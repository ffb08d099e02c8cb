"""Tenant data is reached through a scope: a statement without its organisation cannot be written by accident."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gridfleet

SOURCE = Path(gridfleet.__file__).parent
MIGRATIONS = SOURCE / "kernel" / "db" / "migrations" / "versions"

WITHOUT_ORGANISATION = {
    ("organizations", "find_role"): "the question from which the right to act in an organisation is made",
    ("organizations", "list_of_member"): "a person's own memberships, in every organisation",
    ("audit", "insert"): "an event names its organisation itself",
    ("audit", "delete_before"): "old events of every organisation are forgotten alike",
    ("audit", "delete_of_kind"): "the same",
    **{
        ("telemetry/history", name): "source ids come from `sources` alone, which takes the scope"
        for name in ("values_page", "frames_page", "count_values", "count_points", "extent", "buckets", "wide_buckets")
    },
    ("telemetry/rollups", "reach"): "the same: the ids come from `sources`",
    ("telemetry/rollups", "_recompute_hours"): "the text of a statement that is run with a SystemScope",
    ("telemetry/rollups", "_recompute_days"): "the text of a statement that is run with a SystemScope",
}
"""Store functions that rightly read tenant tables without naming an organisation, with the reason."""


def tenant_tables() -> set[str]:
    """Tables whose rows belong to an organisation, by their own column or through the plant or source they hang off."""
    text = "\n".join(path.read_text() for path in sorted(MIGRATIONS.glob("*.py")))
    tables: dict[str, str] = dict(re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", text, re.DOTALL))
    return {
        name
        for name, columns in tables.items()
        if re.search(r"^\s*(organization_id|plant_id|source_id)\s", columns, re.MULTILINE)
    }


TENANT_TABLES = tenant_tables()
TOUCHES = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|USING)\s+(?:ONLY\s+)?({'|'.join(sorted(TENANT_TABLES))})\b")


def unscoped(source: str) -> Iterator[str]:
    """Names of the functions that touch a tenant table without a scope that their SQL uses."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for function in tree.body:
        if not isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
            continue
        text = " ".join(texts(function, constants))
        if not TOUCHES.search(text):
            continue
        scopes = {
            argument.annotation.id: argument.arg
            for argument in (*function.args.args, *function.args.kwonlyargs)
            if isinstance(argument.annotation, ast.Name)
        }
        uses_org = "OrgScope" in scopes and "organization_id" in text and reads(function, scopes["OrgScope"])
        if not {"SystemScope", "PlatformScope"} & scopes.keys() and not uses_org:
            yield function.name


def texts(node: ast.AST, constants: dict[str, ast.expr], seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Every string below a node, and those of the module's constants that it names; docstrings are not SQL."""
    docstrings = {
        id(inner.body[0].value)
        for inner in ast.walk(node)
        if isinstance(inner, ast.AsyncFunctionDef | ast.FunctionDef) and isinstance(inner.body[0], ast.Expr)
    }
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and id(inner) not in docstrings:
            yield inner.value
        elif isinstance(inner, ast.Name) and inner.id in constants and inner.id not in seen:
            yield from texts(constants[inner.id], constants, seen | {inner.id})


def reads(function: ast.AST, name: str) -> bool:
    """Whether the body uses the argument."""
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(function))


def test_the_tenant_tables_are_found() -> None:
    assert {"plant", "sub_device", "membership", "plant_secret", "telemetry_frame", "refused_message"} <= TENANT_TABLES
    assert not {"organization", "user_account", "device_template", "telemetry_layout"} & TENANT_TABLES


def test_every_statement_on_tenant_data_takes_a_scope() -> None:
    found = {
        (path.parent.relative_to(SOURCE / "domains").as_posix(), name)
        for path in (SOURCE / "domains").rglob("store.py")
        for name in unscoped(path.read_text())
    }
    assert found - WITHOUT_ORGANISATION.keys() == set(), "no scope, or one that the SQL does not use"
    assert WITHOUT_ORGANISATION.keys() - found == set(), "listed without need"


def test_a_system_scope_is_never_made_by_the_http_edge() -> None:
    """But for the broker's questions, which plants ask before they belong to anybody."""
    api = SOURCE / "api"
    made = {
        path.relative_to(api).as_posix()
        for path in api.rglob("*.py")
        if path.relative_to(api).parts[0] != "internal" and makes_system_scope(path.read_text())
    }
    assert made == set()


@pytest.mark.parametrize("scope", ["OrgScope", "PlatformScope"])
def test_a_callers_scope_is_made_by_its_guard_alone(scope: str) -> None:
    makers = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if calls(path.read_text(), scope)}
    by_key = {"domains/partners/rest_access.py"} if scope == "OrgScope" else set()
    assert makers == {"domains/organizations/membership.py"} | by_key


def makes_system_scope(source: str) -> bool:
    """Whether a module makes the service's own right to act."""
    return calls(source, "SystemScope")


def calls(source: str, name: str) -> bool:
    """Whether a module calls a plain name."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in (ast.walk(ast.parse(source)) if name in source else ())
    )


def test_a_violation_would_be_found() -> None:
    head = "_WHERE = 'organization_id = %s'\n"
    violations = [
        "async def a(db):\n    await db.execute('SELECT 1 FROM plant')",
        "async def a(db, org: OrgScope):\n    await db.execute('SELECT 1 FROM plant WHERE id = %s', org)",
        "async def a(db, org: OrgScope):\n    await db.execute('DELETE FROM sub_device WHERE organization_id = 1')",
        "async def a(db, org: UUID):\n    await db.execute(f'UPDATE plant SET name = 1 WHERE {_WHERE}', org)",
    ]
    for violation in violations:
        assert list(unscoped(head + violation)) == ["a"]
    fine = [
        "async def a(db, org: OrgScope):\n    await db.execute(f'SELECT 1 FROM plant WHERE {_WHERE}', org.organization_id)",
        "async def a(db, system: SystemScope):\n    await db.execute('SELECT 1 FROM plant')",
        "async def a(db):\n    await db.execute('SELECT 1 FROM organization')",
        "async def a(db):\n    'Rows FROM plant.'\n    await db.execute('SELECT 1')",
    ]
    for harmless in fine:
        assert list(unscoped(head + harmless)) == []
    assert calls("x = SystemScope('why')", "SystemScope")
    assert not calls("def f(scope: SystemScope): ...", "SystemScope")
