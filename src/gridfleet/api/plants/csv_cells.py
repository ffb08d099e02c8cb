"""Cells of CSV files that a spreadsheet does not take for formulas.

A spreadsheet executes a cell that begins with `=`, `+`, `-` or `@`. A name may come from a partner's program, and a formula can
send other cells of the file to any address. So an export puts an apostrophe before such a text, and an import takes one away.
Where the semicolon separates lists, a spreadsheet splits a text at it, so what follows a semicolon is such a text too.
"""

import re
from typing import Final

__all__ = ["as_cell", "text_of"]

_FORMULA: Final = re.compile(r"(^|;\s*)('*[=+\-@])")
_MARKED: Final = re.compile(r"(^|;\s*)'('*[=+\-@])")


def as_cell(text: str) -> str:
    """Return a text as it is written to a cell."""
    return _FORMULA.sub(r"\1'\2", text)


def text_of(cell: str) -> str:
    """Return the text that `as_cell` wrote to the cell. Any other cell is returned unchanged."""
    return _MARKED.sub(r"\1\2", cell)
