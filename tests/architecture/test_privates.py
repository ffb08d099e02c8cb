"""Tests use the public names of the product: a private one may change without them."""

import ast
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import gridfleet

SOURCE = Path(gridfleet.__file__).parent
TESTS = Path(__file__).parents[1]
NAMED_TUPLES = set(dir(namedtuple("NamedTuple", ())))
OF_LIBRARIES = {("test_left_behind.py", "_client"): "aiomqtt cannot disconnect with reason 0x04"}
"""(file, name) pairs of tests that use a library's private name which the product has too."""


def test_no_test_uses_a_private_name_of_the_product() -> None:
    private = {name for tree in trees(SOURCE).values() for name in defined(tree) if is_private(name)} - NAMED_TUPLES
    strays = []
    for path, tree in trees(TESTS).items():
        own = set(defined(tree)) | {name for file, name in OF_LIBRARIES if file == path.name}
        strays += [
            f"{path.relative_to(TESTS)}:{line}: {name}"
            for line, name in sorted(used(tree))
            if name in private and name not in own
        ]
    assert not strays


def is_private(name: str) -> bool:
    return name.startswith("_") and name.strip("_") != "" and not name.startswith("__")


def trees(folder: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(), path) for path in sorted(folder.rglob("*.py"))}


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module gives to functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def used(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of imports, of attributes of other objects, and of names that `setattr` and `getattr` take."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and called(node).endswith(("getattr", "setattr")):
            texts = (one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str))
            yield from ((node.lineno, text.rpartition(".")[2]) for text in texts)


def called(call: ast.Call) -> str:
    """Return the last part of the name that is called, or an empty text."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def test_a_violation_would_be_found() -> None:
    violations = "from a import _b\nc._d()\nsetattr(e, '_f', 1)\nsetattr('g.h._i', 1)\nself._j = k._l = 1"
    assert {name for _, name in used(ast.parse(violations)) if is_private(name)} == {"_b", "_d", "_f", "_i", "_l"}
