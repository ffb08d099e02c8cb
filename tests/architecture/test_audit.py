"""Every endpoint that changes something records an audit event in the transaction of the change."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import gridfleet
from gridfleet.api.access.guards import UNSAFE
from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers

import_handlers()

SOURCE: Final = Path(gridfleet.__file__).parent
RECORDER: Final = "gridfleet.domains.audit.recorder"
RECORDS: Final = {(RECORDER, name) for name in ("record", "record_in", "record_all_in")}

CHANGING_GETS: Final = {"/api/v1/auth/confirm-accept", "/api/v1/plants/{id}/provision/download"}
"""Paths whose GET changes something."""

WITHOUT_EVENT: Final = {
    ("POST", "/api/v1/alert-rules/preview"): "reads: its body is a rule that is not stored",
    (
        "POST",
        "/api/v1/auth/forgot-password",
    ): "a job sends the mail and records it, so that every address answers in the same time",
    ("POST", "/api/v1/auth/check-invitation"): "reads: its body is a secret that must not stand in a URL",
    ("POST", "/api/v1/svc-esm/oauth/token"): "the sandbox in the part of another company's ESM, called by the service itself",
    ("PUT", "/api/v1/svc-esm/plants/{externalPlantId}/config"): "likewise; the plan's sender records trading.plan_sent",
    ("POST", "/api/v1/svc-esm/plants/{externalPlantId}/config/validate"): "likewise; it reads",
}
"""Endpoints with an unsafe method that record nothing, with the reason."""

Function = tuple[str, str]
"""A module and the name of one of its functions."""


@dataclass
class Module:
    """The functions of a module with what they mention, and the names that it imports."""

    name: str
    mentions: dict[str, set[ast.expr]] = field(default_factory=dict)
    imports: dict[str, Function] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, source: str) -> "Module":
        """Return the module with this source."""
        module, tree = cls(name), ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    module.imports[alias.asname or alias.name] = (node.module, alias.name)
        for node in tree.body:
            if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
                body = [inner for statement in node.body for inner in ast.walk(statement)]
                module.mentions[node.name] = {inner for inner in body if isinstance(inner, ast.Name | ast.Attribute)}
        return module

    def called(self, function: str) -> Iterator[Function]:
        """Yield the functions that a function mentions by its own or an imported name, or as members of an imported module."""
        for node in self.mentions[function]:
            if isinstance(node, ast.Name):
                yield self.imports.get(node.id, (self.name, node.id))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.imports:
                package, member = self.imports[node.value.id]
                yield f"{package}.{member}", node.attr


def modules() -> dict[str, Module]:
    """Every module of the product by its name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module.of(name, path.read_text())
    return found


def records(start: Function, known: dict[str, Module]) -> bool:
    """Return whether a function or one that it mentions, directly or not, records an event."""
    open_functions, seen = [start], {start}
    while open_functions:
        function = open_functions.pop()
        if function in RECORDS:
            return True
        module = known.get(function[0])
        if module is not None and function[1] in module.mentions:
            new = set(module.called(function[1])) - seen
            seen |= new
            open_functions += new
    return False


def test_every_change_records_an_event() -> None:
    known = modules()
    changing = {
        row: (endpoint.handler.__module__, endpoint.handler.__name__)
        for row, endpoint in ENDPOINTS.items()
        if endpoint.method in UNSAFE or endpoint.path in CHANGING_GETS
    }
    silent = {row for row, handler in changing.items() if not records(handler, known)}
    assert silent - WITHOUT_EVENT.keys() == set(), "record an event in the domain's function that changes, or say why not"
    assert WITHOUT_EVENT.keys() - silent == set(), "listed without need"


def test_a_violation_would_be_found() -> None:
    change = "from gridfleet.domains.audit.recorder import record_in\nasync def change(db):\n    await record_in(db)"
    known = {"domain": Module.of("domain", f"{change}\nasync def other(db):\n    await db.execute()")}
    handlers = {
        "from domain import change\nasync def handler(db):\n    await change(db)": True,
        "import os\nfrom package import domain\nasync def handler(db):\n    await domain.change(db)": False,
        "from domain import other\nasync def handler(db):\n    await other(db)": False,
        "from domain import change, other\nasync def handler(db):\n    await other(db)": False,
        f"{change}\nasync def handler(db):\n    await change(db)": True,
    }
    for source, expected in handlers.items():
        assert records(("handlers", "handler"), known | {"handlers": Module.of("handlers", source)}) is expected, source
