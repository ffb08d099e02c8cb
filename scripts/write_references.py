"""Writes the references of `docs/` from the code: run it after adding a setting, a metric, an endpoint, an error code, a
command or a migration, and after `make bench`.

    .venv/bin/python scripts/write_references.py

Only what stands between the two marker lines of each page is replaced; the words around it are written by hand.
`tests/architecture/test_docs.py` fails while a page differs from what this would write.
"""

import ast
import sys
import typing
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import typer
from prometheus_client.metrics import MetricWrapperBase
from pydantic.fields import FieldInfo

from gridfleet.api.access.guards import CallerKind, CallerRule
from gridfleet.api.error_catalogue import CATALOGUE
from gridfleet.api.http.endpoint import ENDPOINTS, Endpoint, import_handlers
from gridfleet.cli import application
from gridfleet.domains.partners.scopes import Scope
from gridfleet.kernel import metrics
from gridfleet.kernel.db import migrations
from gridfleet.kernel.settings import Settings
from gridfleet.protocol.partner_messages import MESSAGE_TYPES, Heading
from gridfleet.protocol.partner_routes import FAMILIES, CommandKind, Family

ROOT = Path(__file__).resolve().parent.parent
# The benchmarks are not installed.
sys.path.append(str(ROOT))
from bench import sizing  # noqa: E402

DOCS = ROOT / "docs"
BEGIN = "<!-- begin: scripts/write_references.py -->"
END = "<!-- end -->"

COMPUTED = {"ingest_processes": "half the cores, at least 1 and at most `GRIDFLEET_INGEST_SHARDS`"}
"""Defaults that depend on the machine, in words."""

REVISIONS = {
    "0002": "Refresh tokens have rows of their own, and failed logins have times.",
    "0003": "Keep the first response to a creating request with an `Idempotency-Key` for a day.",
    "0005": "Audit events: who did what to whom, when and from which address. Rows are only added.",
    "0006": "Invitations, changes of e-mail addresses, and resets of passwords.",
    "0007": "Notify the processes that cache access rights of changes.",
    "0010": "Effects on other systems, queued with the change that causes them and executed after its commit.",
    "0011": "Plant groups, and the telemetry of deleted plants until it is erased.",
    "0012": "Indexes for plants by method and certificates by their end, so that lists of a large fleet stay fast.",
    "0020": "Commands to plants, and every state that they had.",
    "0030": "Roll-ups of telemetry, the ranges that must be computed again, and the start of each level.",
    "0040": "Alert rules, alerts and notifications.",
    "0050": "Partners' API keys, and the queues of their organisations at the broker.",
    "0060": "Sites of partners: commands, limits, modes and schedules; events to partners.",
    "0070": "Energy trading: the ESM of an organisation, the plans sent to it, and the sandbox ESM.",
    "0071": "Add the reason to events about a plant's status.",
    "0080": "Store the cause of queued work, so that logs and traces can be joined.",
    "0081": "Set aside the hours whose roll-up failed, and retry them later.",
    "0083": "Store the modes, schedules and steps that a plant has not confirmed, so that they are issued again.",
    "0084": "Store when a source first used a layout, so that new field names are not taken for unused ones.",
    "0085": "Legacy keys in the vhost `/`, one for each organisation.",
    "0086": "Store withdrawals of commands, so that a command is not sent even if another transaction has locked it.",
    "0087": "Store what is set aside because it fails by itself, with its reason.",
    "0088": "Store the cause of alerts, partner events, statuses and command steps.",
    "0091": "Add the unit of its thresholds to an alert rule, and delete the rule states of plants that move.",
    "0095": "When a plant moves, also end at the plant what partners of the former organisation had set.",
    "0107": "Restrict every column with a fixed set of values to these values with a CHECK.",
    "0109": "Publish statuses and alerts to partners in code. Triggers do so only for processes of the previous release.",
    "0118": "Index the commands that wait for no other command. The others are found through their plant.",
    "0119": "Store the time of the AUTO that ended an emergency stop until the plant confirms a mode.",
    "0121": "Let a plant request its MQTT tokens itself. Each signed request is accepted once.",
    "0129": "Index the unresolved alerts by plant, for the lists and totals of a fleet.",
    "0135": "Publish every change that the list of a fleet shows, such as a new power, and the alerts of moved plants.",
    "0136": "Store with each command the organisation that issued it, and index commands by it.",
    "0137": "Store with each alert the name, condition and threshold of its rule, and index alerts by status and severity.",
    "0138": "Store with refused messages and unregistered devices the organisation of their plant, and index them by it.",
    "0140": "Describe the day of a plant's energies as the day of the organisation's time zone, no longer that of UTC.",
    "0141": "Move the alerts of a plant that moves in small transactions. Its plans stay with the former organisation.",
    "0143": "Store which plants have connected, so that their unacknowledged commands are sent again.",
    "0144": "Publish changes of sub-devices separately from changes of their plant.",
    "0145": "When a plant moves again, also end at the plant what an earlier move ended, if the plant has not confirmed it.",
    "0146": "Let retention drop the chunks of telemetry tables that TimescaleDB partitions.",
    "0147": "Store separately the energies of plants with a meter at the grid, from which a fleet's consumption is computed.",
    "0148": "Store the fallbacks that a plant has not confirmed, so that they are issued again, as limits are.",
    "0151": "Keep the roles of signals that an edit removes from a template, for the values that are already stored.",
    "0152": "Store with each layout how its counters are decoded, so that an edit of a scale adds no energy.",
    "0153": "Delete a user's push devices when all of their sessions end: by logout-all, or by a reset of the password.",
    "0154": "Compute the kept energies of all hours again: their readings may have been in the wrong order.",
    "0156": "Compute the kept energies again in processes of this release only: the previous one may compute them wrongly.",
    "0160": "Index the starts of sources by organisation: a new source takes the earliest start of its organisation.",
    "0166": "Index the command log of a plant by type, so that counting entries and finding a rare type do not read them.",
}
"""Descriptions of migrations whose files, which are not edited any more, have other wording."""


TOPICS = {
    "The service": (
        "home",
        "environment",
        "log_",
        "http_",
        "public_url",
        "trusted_proxies",
        "cors_",
        "internal_",
        "keys",
        "admin_",
        "serve_",
        "metrics_",
        "otlp_",
    ),
    "Database, broker, cache": (
        "ca_file",
        "database_",
        "broker_url",
        "broker_management_url",
        "broker_queue_type",
        "redis_",
        "cache_",
    ),
    "Ports and addresses of the private broker": (
        "amqp",
        "mqtt_port",
        "mqtts_",
        "mqtt_host",
        "mqtt_further_",
        "mqtt_bind",
        "management_",
        "epmd_",
        "broker_",
    ),
    "Limits and lifetimes": (
        "rate_limits",
        "csp_reports_",
        "login_",
        "account_",
        "partner_",
        "mqtt_token_",
        "tokens_",
        "signature_window_",
        "esm_",
    ),
    "Mail and notifications": ("smtp_", "mail_", "expo_", "sms_"),
    "Ingest and roll-ups": ("ingest_", "roll_up_"),
    "Retention": ("alert_days", "audit_", "command_", "csp_report_days", "telemetry_"),
}
"""Where a setting belongs, by how its name begins; what fits nowhere comes last."""


def settings_tables() -> str:
    """Every environment variable by topic, within one in the order of the class."""
    found: dict[str, list[Sequence[str]]] = {topic: [] for topic in (*TOPICS, "Further")}
    for name, setting in Settings.model_fields.items():
        topic = next((topic for topic, beginnings in TOPICS.items() if name.startswith(beginnings)), "Further")
        row = (f"`GRIDFLEET_{name.upper()}`", _default(name, setting), f"{setting.description}{_choices(setting)}")
        found[topic].append(row)
    return "\n".join(
        f"## {topic}\n\n{_table(('variable', 'default', 'meaning'), rows)}" for topic, rows in found.items() if rows
    )


def metrics_table() -> str:
    """Every metric by its name at the scraper, sorted."""
    return _table(
        ("metric", "type", "labels", "meaning"),
        sorted((f"`{_name(each)}`", str(each._type), _labels(each), each._documentation) for each in metrics.all_metrics()),
    )


def scopes_table() -> str:
    """What each scope opens over REST, and the scopes that open nothing there."""
    import_handlers()
    opened = {scope: [place for place, endpoint in ENDPOINTS.items() if endpoint.caller.scope == scope] for scope in Scope}
    return _table(
        ("scope", "REST endpoints"),
        (
            (f"`{scope}`", "<br>".join(f"`{method} {path}`" for method, path in sorted(places, key=lambda at: at[::-1])) or "–")
            for scope, places in opened.items()
        ),
    )


def partner_commands_table() -> str:
    """Every kind of partner command: routing key, type, members, scope and whether it is signed."""
    return _table(
        ("routing key", "command type", "members of the body, in addition to the common ones", "scope", "signed"),
        (
            (
                ", ".join(f"`{{slug}}.{binding.replace('*', '{externalId}')}`" for binding in _bindings(order, family)),
                str(command_type),
                _members(MESSAGE_TYPES[order]),
                f"`{family.scope}`",
                "yes" if family.signed else "no",
            )
            for family in FAMILIES
            for order, command_type in family.commands.items()
        ),
    )


def _bindings(order: CommandKind, family: Family) -> tuple[str, ...]:
    return family.bindings if family.bindings[0] == order else (order,)


def _members(message: type[Heading]) -> str:
    common = Heading.__struct_fields__
    fields = [field for field in msgspec.structs.fields(message) if field.name not in common]
    return ", ".join(f"`{field.encode_name}`{'' if field.required else '?'}" for field in fields)


def errors_table() -> str:
    """Every code with what to do about it."""
    return _table(
        ("code", "status", "meaning", "what to do"),
        ((f"`{code}`", str(entry.status), entry.meaning, entry.remedy) for code, entry in CATALOGUE.items()),
    )


def rest_tables() -> str:
    """Every endpoint, a table for each first word of the path."""
    import_handlers()
    public = [each for each in ENDPOINTS.values() if each.path.startswith("/api/v1/")]
    found = sorted(public, key=lambda each: (_noun(each), each.path, each.method))
    return "\n".join(
        f"## {noun}\n\n"
        + _table(
            ("endpoint", "does", "who", "refuses with", "handler"),
            (
                (
                    f"`{each.method} {each.path}`",
                    each.summary.rstrip("."),
                    _who(each.caller),
                    ", ".join(f"`{code}`" for code in each.codes if code != "INTERNAL_SERVER_ERROR") or "–",
                    f"`{Path(each.handler.__code__.co_filename).relative_to(ROOT / 'src' / 'gridfleet')}`",
                )
                for each in endpoints
            ),
        )
        for noun, endpoints in groupby(found, key=_noun)
    )


def commands_list() -> str:
    """Every command with its arguments and options."""
    return "\n".join(_commands("gridfleet", typer.main.get_command(application)))


def schema_table() -> str:
    """The migrations, the newest first, each by REVISIONS or the first line of its file."""
    files = sorted(Path(next(iter(migrations.__path__)), "versions").glob("[0-9]*.py"), reverse=True)
    docs = {file.stem.partition("_")[0]: ast.get_docstring(ast.parse(file.read_text())) or "" for file in files}
    rows = ((f"`{revision}`", REVISIONS.get(revision, doc.partition("\n")[0])) for revision, doc in docs.items())
    return _table(("revision", "what changed"), rows)


PAGES = {
    "settings.md": settings_tables,
    "metrics.md": metrics_table,
    "partners.md": scopes_table,
    "partner-messages.md": partner_commands_table,
    "errors.md": errors_table,
    "rest.md": rest_tables,
    "cli.md": commands_list,
    "upgrade.md": schema_table,
    "sizing.md": lambda: sizing.tables(_table),
}


def written(page: str) -> str:
    """The page with a fresh table."""
    head, _, rest = (DOCS / page).read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{PAGES[page]()}\n{END}{tail}"


def _noun(endpoint: Endpoint) -> str:
    return endpoint.path.removeprefix("/api/v1").split("/")[1]


def _who(caller: CallerRule) -> str:
    match caller.kind:
        case CallerKind.ORG_MEMBER:
            who = caller.min_role.name if caller.min_role else "member"
        case CallerKind.SESSION:
            who = "any session"
        case CallerKind.SUPER_ADMIN:
            who = "SuperAdmin"
        case CallerKind.INTERNAL:
            who = "internal"
        case CallerKind.ESM_CLIENT:
            who = "client of the sandbox"
        case CallerKind.PUBLIC:
            who = "public"
    return f"{who}; key with `{caller.scope}`" if caller.scope else who


def _commands(words: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, below in sorted(command.commands.items()):
            yield from _commands(f"{words} {name}", below)
        return
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = " ".join([words, *(_placeholder(each) for each in arguments), *(["[options]"] if options else [])])
    yield f"## {words}\n\n```text\n{usage}\n```\n\n{_paragraphs(command.help)}\n"
    if arguments or options:
        yield _table(
            ("", "meaning", "default"),
            (
                (
                    " ".join(f"`{name}`" for name in _names(each)),
                    each.help or "",
                    _shown(each.default),
                )
                for each in [*arguments, *options]
            ),
        )


def _names(parameter: Any) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts] if parameter.param_type_name == "option" else [_placeholder(parameter)]


def _placeholder(argument: Any) -> str:
    """Return what stands for an argument in the usage, with `...` if it can be repeated."""
    return f"{argument.metavar or argument.name.upper()}{'...' if argument.nargs == -1 else ''}"


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.replace("\b\n", "").split("\n\n"))


def _shown(default: Any) -> str:
    return "–" if default in (None, "", False) or callable(default) else f"`{default}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _default(name: str, setting: FieldInfo) -> str:
    if setting.default_factory is not None:
        return COMPUTED[name]
    if isinstance(setting.default, bool):
        return f"`{str(setting.default).lower()}`"
    return "–" if setting.default in (None, "", ()) else f"`{setting.default}`"


def _choices(setting: FieldInfo) -> str:
    if typing.get_origin(setting.annotation) is not typing.Literal:
        return ""
    return f" One of {', '.join(f'`{choice}`' for choice in typing.get_args(setting.annotation))}."


def _name(metric: MetricWrapperBase) -> str:
    # The library keeps a counter's name without the suffix that it is scraped with.
    return f"{metric._name}_total" if metric._type == "counter" else metric._name


def _labels(metric: MetricWrapperBase) -> str:
    return ", ".join(f"`{label}`" for label in metric._labelnames) or "–"


if __name__ == "__main__":
    for page in PAGES:
        (DOCS / page).write_text(written(page))
