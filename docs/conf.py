"""The site: the pages of this folder as they are. `make docs` builds it into build/docs, warnings are errors.

`index.md` is the table of contents. It is plain Markdown, so that it is readable beside the sources: each of its headings with
a list of links becomes a part of the navigation.
"""

import re
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx

project = "Gridfleet"
version = release = installed("gridfleet")
extensions = ["myst_parser"]
exclude_patterns: list[str] = []
nitpicky = True

myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Gridfleet {release}"
html_show_copyright = html_show_sphinx = html_copy_source = False
html_permalinks_icon = "#"
html_static_path = ["site"]
html_css_files = ["wide.css"]

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def contents(index: str) -> dict[str, list[str]]:
    """Return the pages of the navigation, without `.md`, by the heading above their links."""
    parts = re.split(r"^## (.+)$", index, flags=re.MULTILINE)[1:]
    found = {
        caption: re.findall(r"^- \[[^\]]+\]\(([\w/-]+)\.md\)", text, re.MULTILINE)
        for caption, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return {caption: pages for caption, pages in found.items() if pages}


def read(_: Sphinx, page: str, source: list[str]) -> None:
    """Add the navigation to the first page, and to the changelog the text of the file in the root folder."""
    if page == "index":
        source[0] += "".join(
            f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
            for caption, pages in contents(source[0]).items()
        )
    if page == "decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"
    if page == "changelog":
        source[0] = CHANGELOG.read_text()


def setup(app: Sphinx) -> None:
    """Register `read` with Sphinx."""
    app.connect("source-read", read)
