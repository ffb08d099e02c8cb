"""Cells of CSV files that a spreadsheet does not take for formulas.

A spreadsheet executes a cell that begins with `=`, `+`, `-` or `@`. A name may come from a partner's program, and a formula can
send other cells of the file to any address. So an export puts an apostrophe before such a text, and an import takes one away.
"""

import re
from typing import Final

__all__ = ["as_cell", "text_of"]

_MARK: Final = "'"
_FORMULA: Final = re.compile(r"'*[=+\-@]")
_MARKED: Final = re.compile(r"'+[=+\-@]")


def as_cell(text: str) -> str:
    """Return a text as it is written to a cell."""
    return f"{_MARK}{text}" if _FORMULA.match(text) else text


def text_of(cell: str) -> str:
    """Return the text that `as_cell` wrote to the cell. Any other cell is returned unchanged."""
    return cell.removeprefix(_MARK) if _MARKED.match(cell) else cell
