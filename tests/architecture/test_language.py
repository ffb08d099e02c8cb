"""The project's texts are plain technical English: docs, docstrings, comments, log events, errors, and names.

The list has words that a reader must decode: pronouns for users, and people's verbs for programs. docs/glossary.md names the
words to use instead.
"""

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
WORDS = re.compile(
    r"\b(he|him|his|himself|somebody|someone|nobody|anybody|everybody|whoever|whomever"
    r"|tells?|told|hears?|heard|mends?|mended|mending|forgives?|forgiven|believes?|believed|to be had)\b",
    re.IGNORECASE,
)
EXCEPTIONS = {
    ("docs/glossary.md", "somebody"): "the words that the glossary replaces",
    ("docs/glossary.md", "he"): "the same",
    ("docs/glossary.md", "hear"): "the same",
    ("docs/upgrade.md", "told"): "generated from landed migrations, which are never edited",
    ("docs/upgrade.md", "hear"): "the same",
}
"""(file, word) pairs that may stand, each with the reason."""

NAMES_OF_LIBRARIES = {("archive.py", "tell")}
"""(file, name) pairs that the project does not choose."""


def texts_of(path: Path, begins: tuple[str, ...] = ("",)) -> Iterator[tuple[int, str]]:
    """Yield the line number and text of everything that is read: whole pages, and strings and comments of source.

    `begins` selects the strings and comments that begin with one of these.
    """
    if path.suffix == ".md":
        yield from enumerate(path.read_text().splitlines(), start=1)
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT) and token.string.startswith(begins):
            yield from enumerate(token.string.splitlines(), start=token.start[0])


def files() -> list[Path]:
    """Return the pages and modules that are checked. Landed migrations are never edited."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    modules = [path for path in (ROOT / "src").rglob("*.py") if "versions" not in path.parts]
    return sorted(path for path in pages + modules)


def scripts() -> list[Path]:
    """Return the modules beside the product. Their strings are data of all kinds; their docstrings and comments are checked."""
    return [path for folder in ("tests", "bench", "scripts") for path in sorted((ROOT / folder).rglob("*.py"))]


def found_in(path: Path, texts: Iterable[tuple[int, str]]) -> list[str]:
    name = str(path.relative_to(ROOT))
    return [
        f"{name}:{line}: {match[0]}: {text.strip()}"
        for line, text in texts
        for match in WORDS.finditer(text)
        if (name, match[0].lower()) not in EXCEPTIONS
    ]


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_are_plain(path: Path) -> None:
    found = found_in(path, texts_of(path))
    assert not found, "\n".join(found)


def test_docstrings_and_comments_of_tests_are_plain() -> None:
    found = [one for path in scripts() for one in found_in(path, texts_of(path, ('"""', "#")))]
    assert not found, "\n".join(found)


def test_names_are_plain() -> None:
    sources = [path for path in files() if path.suffix == ".py"]
    sources += scripts()
    found = {
        f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}"
        for path in sources
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.NAME
        and (path.name, token.string) not in NAMES_OF_LIBRARIES
        and any(WORDS.fullmatch(part) for part in token.string.split("_"))
    }
    found |= {str(path.relative_to(ROOT)) for path in sources if any(WORDS.fullmatch(part) for part in path.stem.split("_"))}
    assert not found, "\n".join(sorted(found))
