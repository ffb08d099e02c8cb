"""Each worker of a run collects the tests by itself, so a test's name must be the same in every process."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
CHANGING = {"new_id", "now", "random", "time", "time_ns", "token_hex", "urandom", "utc_now", "uuid4"}
"""Functions whose results differ from process to process. As an object such a value is not part of the name, as text it is."""


def changing_texts(tree: ast.AST) -> list[int]:
    """Return the lines of texts in parameters of tests that such a function makes."""
    return [text.lineno for text in _texts(tree) if any(_changes(one) for one in ast.walk(text))]


def _texts(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the computed texts among the parameters of tests: they are part of the names. Texts within records are not."""
    for call in (one for node in ast.walk(tree) for one in getattr(node, "decorator_list", ())):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.parametrize" and len(call.args) > 1:
            for case in getattr(call.args[1], "elts", ()):
                yield from filter(_makes_text, case.elts if isinstance(case, ast.Tuple) else [case])


def _makes_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and ast.unparse(node.func) == "str")


def _changes(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in CHANGING


def test_the_rule() -> None:
    cases = "f'x={uuid4()}', (uuid4(), str(uuid4())), f'{UUID(int=1)}', {'a': str(uuid4())}"
    source = f"@pytest.mark.parametrize('a', [{cases}])\ndef test(a): ..."
    assert changing_texts(ast.parse(source)) == [1, 1]


def test_no_name_of_a_test_changes() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for line in changing_texts(ast.parse(path.read_text()))
    ]
    assert not found
