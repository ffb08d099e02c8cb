"""Rules about where code lives that an import contract cannot express."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import gridfleet
from support.servers.distribution import LONGEST, USERS

SOURCE = Path(gridfleet.__file__).parent
SQL = re.compile(
    r"\s*(SELECT\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|WITH\s+\w+.*\sAS\s|COPY\s+\w+|CREATE\s+(TABLE|INDEX)\s)",
    re.DOTALL,
)
BUSINESS = re.compile(r"(?<![a-z])(plant|partner|vcp|alert|esm|telemetry|trading|site)s?(?![a-z])", re.IGNORECASE)
BUSINESS_IN_THE_KERNEL = {
    ("settings.py", None): "the list of all settings",
    ("metrics.py", None): "the list of all metrics",
    ("caller.py", "plant_ids"): "the limit of an API key, which every store applies",
    ("caller.py", "PLANT"): "a kind of actor, as USER and API_KEY are",
    ("cache.py", None): "separates its entries by this limit",
}
"""(file, name) pairs of `kernel/` that may use a business word, each with the reason. None stands for every name."""
OF_REPLICA = {
    "gridfleet.kernel.db.replica": {"api/access/history_reads.py", "api/state.py", "cli/doctor/database.py"},
    "gridfleet.api.access.history_reads": {"api/state.py"},
    "gridfleet.domains.telemetry.history.reading": {
        "api/access/history_reads.py",
        "domains/telemetry/history/columns.py",
        "domains/telemetry/history/queries.py",
    },
}
"""Modules through which a replica is read, with the modules that may import each."""
READ_A_REPLICA = {"get_telemetry", "get_telemetry_columns", "get_device_telemetry"}
"""Handlers whose values may be some seconds old."""
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc", "service", "manager"}


def test_only_stores_the_database_kernel_and_the_private_server_hold_sql() -> None:
    strays = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, tree in modules()
        if path.name not in ("store.py", "postgres.py") and SOURCE / "kernel" / "db" not in path.parents
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value)
    ]
    assert not strays


def test_the_distribution_of_tests_names_existing_files_and_servers() -> None:
    files = {file for listed in USERS.values() for file in listed} | {unit for unit in LONGEST if "::" not in unit}
    root = Path(__file__).parents[2]
    assert {file for file in files if not (root / file).is_file()} == set()
    assert {unit for unit in LONGEST if "::" in unit} <= USERS.keys()


def test_a_store_is_imported_by_its_own_domain_alone() -> None:
    strays = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path, tree in modules()
        for name in imports(tree)
        if re.search(r"\.store(\.|$)", name)
        and name.startswith("gridfleet.domains.")
        and path.relative_to(SOURCE).parts[:2] != tuple(name.split(".")[1:3])
    ]
    assert not strays


def test_only_the_history_of_telemetry_may_come_from_a_replica() -> None:
    found = {name: {str(path.relative_to(SOURCE)) for path, tree in modules() if name in imports(tree)} for name in OF_REPLICA}
    users = {
        function.name
        for path, tree in modules()
        if path.name != "state.py"
        for function in ast.walk(tree)
        if isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef)
        and any(isinstance(node, ast.Attribute) and node.attr == "history_reads" for node in ast.walk(function))
    }
    assert found == OF_REPLICA
    assert users == READ_A_REPLICA | {"_serve"}  # which measures how far it lags


def test_file_names_say_what_is_inside() -> None:
    assert not [path for path, _ in modules() if path.stem in NAMES_THAT_SAY_NOTHING]


def test_no_name_of_the_kernel_is_a_business_word() -> None:
    strays = [
        f"{path.relative_to(SOURCE)}:{token.start[0]}: {token.string}"
        for path, _ in modules()
        if SOURCE / "kernel" in path.parents and "migrations" not in path.parts
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.NAME
        and BUSINESS.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", token.string))
        and not {(path.name, None), (path.name, token.string)} & BUSINESS_IN_THE_KERNEL.keys()
    ]
    assert not strays


def test_every_module_says_what_it_gives() -> None:
    assert not [path for path, tree in modules() if tree.body and not ast.get_docstring(tree)]


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text(), path)) for path in sorted(SOURCE.rglob("*.py"))]


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_a_violation_would_be_found() -> None:
    for statement in (
        "SELECT 1",
        " INSERT INTO plant",
        "UPDATE plant SET a = 1",
        "WITH a AS (SELECT 1) DELETE FROM a",
        "COPY a",
    ):
        assert SQL.match(statement)
    for words in ("Select a plant", "Updates the plant", "with care", "DELETE", "copy"):
        assert not SQL.match(words)
    found = set(imports(ast.parse("from gridfleet.domains.plants import store\nimport gridfleet.domains.identity.store")))
    assert {"gridfleet.domains.plants.store", "gridfleet.domains.identity.store"} <= found
