"""What the docs name exists: pages, files, make targets, commands, variables, metrics, codes, routes, vectors."""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from gridfleet.api.error_catalogue import CATALOGUE
from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers
from gridfleet.cli import application
from gridfleet.domains.audit.models import Event
from gridfleet.kernel import metrics
from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.plugins import AUTH_PLUGIN, BOUNDS_PLUGIN, SESSIONS_BACKEND
from gridfleet.protocol import envelope, signature
from gridfleet.protocol.topics import Channel

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
TEXTS = {page: page.read_text() for page in PAGES}
MQTT = ROOT / "docs" / "mqtt.md"

OTHER_VARIABLES = {"GRIDFLEET_API", "GRIDFLEET_TEST_CITUS"}
"""Read by one command or by tests only, so not in the settings."""


def test_the_reference_tables_are_those_of_the_code() -> None:
    references = load_script(ROOT / "scripts" / "write_references.py")

    stale = [page for page in references.PAGES if (ROOT / "docs" / page).read_text() != references.written(page)]

    assert not stale, "run .venv/bin/python scripts/write_references.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
class TestPage:
    def test_links_lead_somewhere(self, page: Path) -> None:
        broken = []
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", TEXTS[page]):
            linked = page.parent / target if target else page
            if not linked.exists() or (anchor and anchor not in anchors(linked.read_text())):
                broken.append(f"{target}#{anchor}")
        assert not broken

    def test_named_files_exist(self, page: Path) -> None:
        missing = [
            path
            for path in re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.(?:py|md|txt|sh|toml))`", TEXTS[page])
            if not any((base / path).exists() for base in (ROOT, ROOT / "src" / "gridfleet", ROOT / "docs"))
        ]
        assert not missing

    def test_make_targets_exist(self, page: Path) -> None:
        known = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
        named = set(re.findall(r"^make ([a-z]+)|`make ([a-z]+)", TEXTS[page], re.MULTILINE))
        assert {first or second for first, second in named} <= known

    def test_variables_exist(self, page: Path) -> None:
        known = {f"GRIDFLEET_{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
        assert set(re.findall(r"GRIDFLEET_[A-Z_]+[A-Z]", TEXTS[page])) <= known

    def test_metrics_exist(self, page: Path) -> None:
        known = {name for value in vars(metrics).values() for name in metric_names(value)}
        named = re.findall(r"`(gridfleet_\w+?)(?:\{[^`]*)?`", TEXTS[page])
        assert {name for name in named if name not in NOT_METRICS} <= known

    def test_commands_and_their_options_exist(self, page: Path) -> None:
        assert not [complaint for line in commands(TEXTS[page]) for complaint in complaints_about(line)]

    def test_routes_exist(self, page: Path) -> None:
        import_handlers()
        known = {(method, shape(path)) for method, path in ENDPOINTS}
        named = re.findall(r"\b(GET|POST|PUT|PATCH|DELETE) (/[\w/{}.-]+)", TEXTS[page])
        assert {(method, path) for method, path in named if (method, shape(path)) not in known} == set()


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            links = re.findall(r"\]\((?!https?:)([^)#\s]+\.md)", TEXTS[page])
            waiting += [(page.parent / link).resolve() for link in links]
    assert set(PAGES) - reached == set()


def test_every_code_is_explained_with_its_status() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", TEXTS[ROOT / "docs" / "errors.md"], re.MULTILINE)

    assert {code: int(status) for code, status in rows} == {code: entry.status for code, entry in CATALOGUE.items()}


def test_every_audit_event_is_explained() -> None:
    section = TEXTS[ROOT / "docs" / "accounts.md"].partition("## Audit events")[2]

    assert set(re.findall(r"`([a-z_]+\.[a-z_]+)`", section)) == set(Event)


def test_every_refusal_reason_is_explained() -> None:
    section = TEXTS[MQTT].partition("## Refused messages")[2]

    assert set(re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE)) == set(envelope.RefusalReason)


def test_the_signature_vectors_of_the_page_hold() -> None:
    secret = re.search(r"secret `([0-9a-f]{64})`", TEXTS[MQTT])
    vectors = [block for block in map(json.loads, blocks(TEXTS[MQTT], "json")) if "messageId" in block and "address" in block]

    assert secret is not None
    assert len(vectors) == 1
    for vector in vectors:
        key = signature.key_from_hex(secret[1])
        payload = vector["payload"].encode()
        assert signature.sign(key, vector["address"], vector["messageId"], vector["sentAt"], payload) == vector["sig"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the example needs openssl")
def test_the_shell_version_of_the_signature_agrees() -> None:
    (script,) = blocks(TEXTS[MQTT], "sh")
    vector = next(block for block in map(json.loads, blocks(TEXTS[MQTT], "json")) if "address" in block)

    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, timeout=10)

    assert done.stdout.split()[-1] == vector["sig"]


def test_the_messages_of_the_page_are_what_the_service_reads() -> None:
    examples = [json.loads(block) for block in blocks(TEXTS[MQTT], "json")]
    kinds = {
        envelope.Envelope: [example for example in examples if "v" in example],
        envelope.Snapshot: [example for example in examples if "devices" in example],
        envelope.StatusMessage: [example for example in examples if "firmware" in example],
        envelope.Command: [example for example in examples if "issuedAt" in example],
        envelope.CommandAck: [example for example in examples if "commandId" in example and "status" in example],
    }
    for kind, found in kinds.items():
        assert len(found) == 1, kind
        assert msgspec.json.decode(json.dumps(found[0]), type=kind)


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    section = TEXTS[MQTT].partition("## Limits")[2].partition("\n## ")[0]
    for limit in (envelope.MAX_MESSAGE_BYTES, envelope.MAX_SNAPSHOTS, envelope.MAX_DEVICES, envelope.MAX_FIELDS):
        assert f"{limit:,}" in section


def test_every_topic_is_described() -> None:
    for channel in Channel:
        assert f"| `v1/plants/{{plantId}}/{channel.value}` |" in TEXTS[MQTT]


def test_every_command_explains_itself() -> None:
    runner = CliRunner()
    groups: list[tuple[list[str], Any]] = [([], typer.main.get_command(application))]
    for words, command in groups:
        groups += [([*words, name], below) for name, below in getattr(command, "commands", {}).items()]
        answer = runner.invoke(application, [*words, "--help"])
        assert answer.exit_code == 0, words
        assert command.help, words


NOT_METRICS = {"gridfleet_session", "gridfleet_refresh", "gridfleet_owner", AUTH_PLUGIN, BOUNDS_PLUGIN, SESSIONS_BACKEND}


def load_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as code forges make them."""
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


def metric_names(value: object) -> Iterator[str]:
    name, kind = getattr(value, "_name", None), getattr(value, "_type", None)
    if isinstance(name, str):
        yield f"{name}_total" if kind == "counter" else name


def commands(text: str) -> Iterator[str]:
    """Every `gridfleet …` in shell blocks and in running text."""
    for block in blocks(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            yield from re.findall(r"^(?:\.venv/bin/)?gridfleet( .*)?$", line.strip())
    yield from re.findall(r"`(?:\.venv/bin/)?gridfleet( [a-z][^`]*)`", text)


def complaints_about(line: str) -> Iterator[str]:
    """What of a command line does not exist; nothing is run."""
    command: Any = typer.main.get_command(application)
    words = [word for word in shlex.split(line.split(" #")[0].split("|")[0]) if word != "…"]
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in command.commands:
            yield f"gridfleet{line}: there is no command {name}"
            return
        command = command.commands[name]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    for word in words:
        if word.startswith("--") and word.partition("=")[0] not in options:
            yield f"gridfleet{line}: there is no option {word}"


def shape(path: str) -> str:
    """A path with its parameters unnamed."""
    return re.sub(r"\{\w+\}", "{}", path.rstrip(".")).removeprefix("/api/v1")
