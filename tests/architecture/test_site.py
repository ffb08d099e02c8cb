"""The site that `make docs` builds: whole, without a warning, and without anything from the network."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gridfleet.api.error_catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
READERS = {"Operators", "Installers", "Partners", "Site reliability", "Developers", "Reference"}


class Assets(HTMLParser):
    """Everything that a browser fetches by itself when it opens the page, and the pages of the navigation."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag in ("script", "img", "iframe", "source") and names.get("src"):
            self.fetched.append(str(names["src"]))
        if tag == "link" and names.get("href") and names.get("rel") not in ("next", "prev", "index", "search", "canonical"):
            self.fetched.append(str(names["href"]))
        if tag == "a" and "reference internal" in (names.get("class") or ""):
            self.linked.add(str(names.get("href")).partition("#")[0])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with the options of the Makefile."""
    [options] = re.findall(r"-m sphinx (.*) docs build/docs$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "-W" in options.split(), "warnings are errors"
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options.split(), "docs", str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def test_the_index_names_every_page_once() -> None:
    parts = re.split(r"^## (.+)$", (DOCS / "index.md").read_text(), flags=re.MULTILINE)
    named = re.findall(r"^- \[[^\]]+\]\(([\w/-]+)\.md\)", "".join(parts), re.MULTILINE)

    assert set(parts) >= READERS
    assert len(named) == len(set(named))
    assert set(named) == {page for page in PAGES if not page.startswith("decisions/0")} - {"index"}


def test_every_page_is_in_the_navigation(site: Path) -> None:
    home = Assets((site / "index.html").read_text())
    decisions = Assets((site / "decisions" / "README.html").read_text())

    assert {f"{page}.html" for page in PAGES if not page.startswith("decisions/0")} - {"index.html"} <= home.linked
    assert {f"{page.removeprefix('decisions/')}.html" for page in PAGES if page.startswith("decisions/0")} <= decisions.linked


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for address in Assets(page.read_text()).fetched:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} fetches {address}"
            assert (page.parent / address.partition("?")[0]).exists(), f"{page.name}: {address} is missing"
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)]*", sheet.read_text()), sheet


def test_the_search_finds_what_people_ask_for(site: Path) -> None:
    index = json.loads((site / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    terms = {*index["terms"], *index["titleterms"]}

    # The index holds words without their endings; the page shortens what is typed in the same way.
    assert [code for code in CATALOGUE if not terms & {code.lower()[: len(code) - cut] for cut in range(5)}] == []
    assert {"retent", "keyr", "setpoint"} <= terms


def test_the_changelog_is_on_the_site(site: Path) -> None:
    assert "semantic versioning" in (site / "changelog.html").read_text()
