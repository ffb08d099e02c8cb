"""Tenant data is reached through a scope: a statement without its organisation cannot be written by accident."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gridfleet

SOURCE = Path(gridfleet.__file__).parent
MIGRATIONS = SOURCE / "kernel" / "db" / "migrations" / "versions"

ACROSS_ORGANISATIONS: dict[str, tuple[str, str]] = {
    "alerts/store": (
        "ingest raises alerts about what verified plants reported; resolved ones are deleted after their time",
        "newest_times plant_names hold_sources insert resolve_by_itself changes moved_plants follow_plant end_move"
        " delete_resolved",
    ),
    "alerts/retention": ("resolved alerts of all organisations are deleted after their time", "delete_resolved"),
    "alerts/states/store": (
        "ingest keeps the states of what verified plants reported",
        "rule_states count_states hold_rules hold_states insert_rule_states update_rule_states delete_rule_states",
    ),
    "alerts/rules/store": (
        "ingest applies every organisation's rules to its plants",
        "enabled_of without_cooldown claim units_of layout_units set_units claim_unit_notifications",
    ),
    "audit/store": (
        "an event names its organisation itself; old and excess events are deleted alike; those of a user alone have none",
        "insert_all count_since nth_newest",
    ),
    "notifications/recipients/store": (
        "an alert names the organisation whose members are notified",
        "count_addresses queue_for_members",
    ),
    "notifications/store": ("one queue serves all organisations", "claim"),
    "organizations/store": (
        "membership is the question from which the right to act in an organisation is made",
        "find_role list_of_member insert_member",
    ),
    "organizations/members": ("an invitation that was accepted gives a membership", "add"),
    "organizations/invitations/store": (
        "an invitation's token is the right to join its organisation; mails to an address are limited over all; a disabled"
        " user's end in all",
        "nth_newest_to revoke_of mark_expired find_held lock_held accept revoke_others",
    ),
    "organizations/invitations/registry": ("invitations of all organisations expire", "sweep_expired"),
    "partners/store": (
        "a key's text or id names its organisation; the gateway maintains the queues of all",
        "find_live note_use find_queues list_prefixes find_prefix",
    ),
    "partners/broker_keys/store": (
        "the gateway serves the keys of all organisations",
        "find_sending find_amqp list_amqp list_amqp_of_many count_at_broker counts_at_broker end_expired restore_ended"
        " delete_all_unproven",
    ),
    "partners/amqp_access/store": (
        "the broker names a key, and asks what it may do",
        "find find_by_id note_connection",
    ),
    "partners/legacy/store": (
        "an operator imports keys of all organisations, and the gateway serves them",
        "is_known insert find_owner slugs",
    ),
    "partners/own_queues": ("the gateway examines the queues of all partners", "find_owner"),
    "partners/queues": ("a key's vhost has its organisation's queues", "queue_prefix queue_prefixes"),
    "partners/signing": ("the gateway verifies and signs for all partners", "load_sending_key list_amqp_keys"),
    "partners/vhosts": (
        "the gateway maintains the vhosts of all partners",
        "wanted_vhost legacy_slugs expire_due restore_ended queue_updates_except queue_bytes_by_vhost",
    ),
    "partner_events/queue": (
        "the gateway publishes the events of all partners",
        "queue_events next_events delete_published drop_stale drop_unserved first_ids oldest_seconds count_events"
        " may_have_surplus drop_surplus subscribed_plants",
    ),
    "maintenance/queues": ("metrics count the queues of all organisations", "waiting_commands"),
    "maintenance/store": ("metrics count the queues of all organisations", "waiting_commands"),
    "partner_events/store": (
        "the gateway publishes the events of all partners",
        "insert subscribed waiting first_ids oldest count delete delete_older delete_of_others delete_surplus",
    ),
    "plants/store": (
        "ingest records the presence of all plants; an organisation's ESM reports the plants that are linked to it",
        "lock_many hold_many identities linked_plants write_esm_facts",
    ),
    "plants/presence/store": ("ingest records the presence of all plants", "lock_seen_before record_presence mark_silent"),
    "plants/certificates/store": ("one authority serves all organisations", "count_trusting"),
    "plants/certificates/authority": ("one authority serves all organisations", "replace_authority"),
    "plants/commands/store": (
        "partners' commands go to all sites, and ingest takes the acknowledgements of all plants",
        "_insert insert_relayed newest_waiting lock_many save_lives delete_finished",
    ),
    "plants/commands/ending/store": (
        "commands of all organisations expire and are withdrawn",
        "withdraw_waiting end_withdrawn list_passed expire",
    ),
    "plants/commands/sending/store": (
        "the gateway sends the commands of all organisations",
        "plants_to_claim claim _earlier_due mark_sent postpone note_connected wake correct_due",
    ),
    "plants/commands/acknowledgements": ("ingest takes the acknowledgements of all plants", "apply_acknowledgements"),
    "plants/commands/clocks": ("gateways and the API issue commands to any plant", "issue_time correct_due"),
    "plants/commands/delivery": ("the gateway sends the commands of all organisations", "claim_due record_published"),
    "plants/commands/expiry": ("commands of all organisations expire", "expire_due list_due delete_ended"),
    "plants/commands/relaying": ("the gateway relays partners' commands to their sites", "relay relay_stop"),
    "plants/ingest_plants": ("ingest serves all plants that the broker let in", "load_ingest_plants load_ingest_devices"),
    "plants/credentials/store": (
        "the service signs for all plants, and old secrets of all are deleted",
        "delete_old_packages delete_previous_secrets find_many",
    ),
    "plants/credentials/packages": ("old secrets of all plants are deleted", "delete_old_packages delete_previous_secrets"),
    "plants/credentials/signing_keys": ("the service signs for all plants", "load_signing_keys"),
    "plants/refused_messages/store": (
        "ingest records what any plant sent wrongly",
        "insert_refused delete_early_refused delete_old_refused newest_surplus delete_surplus record_unregistered_devices"
        " delete_old_devices plants_with_surplus_devices delete_surplus_devices",
    ),
    "plants/refused_messages/records": (
        "ingest records what any plant sent wrongly",
        "record_refused_messages record_unregistered_devices trim_refused_messages trim_unregistered_devices",
    ),
    "plants/mqtt_access/store": (
        "the broker names a plant, and asks what it may do",
        "find find_token_plant claim_token_request count_failures clear_failures",
    ),
    "plants/presence/records": (
        "ingest records the presence of all plants",
        "lock_seen_before record_presence record_bad_signatures sweep_silent sweep_all_silent",
    ),
    "plants/sub_devices/store": (
        "ingest records the presence of all plants' devices",
        "lock_many record_presence invalidate_status mark_silent of_plants find_named",
    ),
    "sandbox_esm/store": (
        "the sandbox serves all organisations, and SuperAdmins decide about it",
        "enable_client disable_client client_of_organization find_client client_of_token",
    ),
    "telemetry/energy/store": (
        "energies of all organisations are kept alike; meters and readings belong to plants that the caller named",
        "dirty_plants postpone accounts readings last_readings had_values_before former_levels next_readings past_to_read"
        " kept_around kept_from falls_before write",
    ),
    "telemetry/energy/totals/store": (
        "totals of all organisations are kept alike, and follow their plants",
        "misplaced owner_of leave_totals enter_totals complete",
    ),
    "telemetry/frames/store": (
        "ingest writes what verified plants reported; the telemetry of deleted plants has no organisation",
        "ensure_sources sources ensure_device_sources device_sources complete_own_scalings used_layouts count_used_names"
        " count_own_names write_frames write_latest abandoned_sources days_of_source nth_time delete_frames hold_source"
        " delete_latest create_source delete_source source_owners starts",
    ),
    "telemetry/power/refresh": ("ingest and a job refresh the powers of all plants", "refresh_power refresh_all"),
    "telemetry/power/store": (
        "ingest and a job refresh the powers of all plants",
        "lock reading_rows save plants_after",
    ),
    "telemetry/latest/store": ("the clock is compared with those of all plants", "is_clock_behind"),
    "telemetry/history/store": (
        "the energy of plants is computed by jobs, and for plants that the caller may read; `reported` takes the scope",
        "role_sources _first_dirty",
    ),
    "telemetry/history/values/store": (
        "source ids come from `sources` alone, which takes the scope",
        "values_page values_by_second frames_page count_values count_points extent buckets wide_buckets",
    ),
    "telemetry/rollups/store": (
        "roll-ups treat the sources of all organisations alike",
        "advance_watermark dirty_sources take_dirty set_aside set_aside_hours layouts_to_recompute _layouts"
        " minutes_of_frames _recompute_hours _recompute_days delete_dirty note_energy",
    ),
    "telemetry/rollups/reading/store": ("source ids come from `sources` alone, which takes the scope", "reach"),
    "telemetry/retention/store": (
        "retention treats the sources of all organisations alike",
        "limits rolled_up_before move_start move_start_of_frames give_up_hours earliest_start sources_that_start_later"
        " set_limits correct_starts",
    ),
    "trading/store": (
        "jobs sync the plants of all ESMs and delete old plans; a configuration ends with its organisation; a plan's record"
        " moves with its plant",
        "delete_disabled enabled_configs record_sync finish_change delete_changes",
    ),
    "trading/retention": ("plans of all organisations are deleted after their time", "delete_plans"),
    "vcp/store": (
        "the gateway takes the commands of all partners",
        "hold_plant find_device find_claim release_claim find_refused has_refused_payloads insert_log_entry follow"
        " delete_log_entries",
    ),
    "vcp/acknowledgements": ("ingest takes the acknowledgements of all plants", "follow_commands"),
    "vcp/intake": ("the gateway takes the commands of all partners", "take_command refuse_unstorable"),
    "vcp/retention": ("commands of all partners are deleted after their time", "delete_commands"),
    "vcp/scheduler": (
        "the gateway issues what is due at all sites",
        "issue_due_commands list_sites correct_silence reopen_early_steps",
    ),
    "vcp/confirmation/store": (
        "the gateway repeats what plants have not confirmed",
        "expect_all record_issues set_due follow_stop delete concerned of_plants wake lock_due is_due keep_fallback predecessor"
        " complete_missed setpoint_in_force find_repetition repeated_auto later_setpoints was_applied",
    ),
    "vcp/confirmation/dispatch": (
        "the gateway issues what is due at all sites",
        "issue_due complete_missed issue_modes",
    ),
    "vcp/confirmation/ends": ("the gateway issues what is due at all sites", "apply_ends"),
    "vcp/events/recipients": ("the gateway serves the vhosts of all partners", "served_vhosts"),
    "vcp/sites/store": (
        "the gateway issues what is due at all sites",
        "open_site lock_site lock_many read_locked save_site delete_intervals insert_intervals mark_done reopen_intervals"
        " intervals_of set_setpoint start_of_interval",
    ),
    "vcp/sites/due/store": (
        "the gateway issues what is due at all sites",
        "list_ids claim_due_intervals lock_after_setpoints reopen_after_setpoints end_schedules end_overrides start_fallbacks"
        " correct_silence correct_openings reopen_early_intervals",
    ),
    "vcp/sites/changes": ("the gateway takes the commands of all partners", "change_site"),
}
"""Functions that act beyond one organisation, by module: the reason, and their names.

Functions of stores touch a tenant table without the scope of a caller. The others pass such a right on: HTTP handlers must not
call them. The broker's requests (`api/internal`) may.
"""

NAMES = {module: set(names.split()) for module, (_, names) in ACROSS_ORGANISATIONS.items()}


def tenant_tables() -> set[str]:
    """Tables whose rows belong to an organisation, by their own column or through the plant or source they hang off."""
    text = "\n".join(path.read_text() for path in sorted(MIGRATIONS.glob("*.py")))
    tables: dict[str, str] = dict(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)\n\)", text, re.DOTALL))
    return {
        name
        for name, columns in tables.items()
        if re.search(r"^\s*(organization_id|plant_id|source_id)\s", columns, re.MULTILINE)
    }


TENANT_TABLES = tenant_tables()
TOUCHES = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|USING)\s+(?:ONLY\s+)?({'|'.join(sorted(TENANT_TABLES))})\b")


def unscoped(source: str) -> Iterator[str]:
    """Names of the functions that touch a tenant table without a scope that their SQL uses."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for function in tree.body:
        if not isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
            continue
        text = " ".join(texts(function, constants))
        if not TOUCHES.search(text):
            continue
        scopes = {
            argument.annotation.id: argument.arg
            for argument in (*function.args.args, *function.args.kwonlyargs)
            if isinstance(argument.annotation, ast.Name)
        }
        uses_org = "OrgScope" in scopes and "organization_id" in text and reads(function, scopes["OrgScope"])
        if "PlatformScope" not in scopes and not uses_org:
            yield function.name


def texts(node: ast.AST, constants: dict[str, ast.expr], seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Every string below a node, and those of the module's constants that it names; docstrings are not SQL."""
    docstrings = {
        id(inner.body[0].value)
        for inner in ast.walk(node)
        if isinstance(inner, ast.AsyncFunctionDef | ast.FunctionDef) and isinstance(inner.body[0], ast.Expr)
    }
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and id(inner) not in docstrings:
            yield inner.value
        elif isinstance(inner, ast.Name) and inner.id in constants and inner.id not in seen:
            yield from texts(constants[inner.id], constants, seen | {inner.id})


def reads(function: ast.AST, name: str) -> bool:
    """Whether the body uses the argument."""
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(function))


def test_the_tenant_tables_are_found() -> None:
    assert {"plant", "sub_device", "membership", "plant_secret", "telemetry_frame", "refused_message"} <= TENANT_TABLES
    assert not {"organization", "user_account", "device_template", "telemetry_layout"} & TENANT_TABLES


def test_every_statement_on_tenant_data_takes_a_scope() -> None:
    found = {
        (path.relative_to(SOURCE / "domains").with_suffix("").as_posix(), name)
        for path in (SOURCE / "domains").rglob("store.py")
        for name in unscoped(path.read_text())
    }
    listed = {(module, name) for module, names in NAMES.items() if module.endswith("store") for name in names}
    assert found - listed == set(), "no scope, or one that the SQL does not use"
    assert listed - found == set(), "listed without need"


def test_what_is_listed_exists() -> None:
    for module, names in NAMES.items():
        tree = ast.parse((SOURCE / "domains" / f"{module}.py").read_text())
        defined = {node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)}
        assert names <= defined, module


def test_handlers_call_nothing_that_acts_beyond_one_organisation() -> None:
    """But for the broker's requests, which plants make before they belong to an organisation."""
    api = SOURCE / "api"
    found = {
        (path.relative_to(api).as_posix(), name)
        for path in api.rglob("*.py")
        if path.relative_to(api).parts[0] != "internal"
        for name in beyond(path.read_text())
    }
    assert found == set()


def beyond(source: str) -> set[str]:
    """Names of NAMES that a module imports, or reads from an imported module."""
    tree = ast.parse(source)
    modules: dict[str, set[str]] = {}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gridfleet.domains"):
            parent = (node.module or "").removeprefix("gridfleet.domains").replace(".", "/").lstrip("/")
            for alias in node.names:
                modules[alias.asname or alias.name] = NAMES.get(f"{parent}/{alias.name}".lstrip("/"), set())
                found |= {alias.name} & NAMES.get(parent, set())
    return found | {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in modules.get(node.value.id, set())
    }


@pytest.mark.parametrize("scope", ["OrgScope", "PlatformScope"])
def test_a_callers_scope_is_made_by_its_guard_alone(scope: str) -> None:
    makers = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if calls(path.read_text(), scope)}
    by_key = {"domains/partners/rest_access.py"} if scope == "OrgScope" else set()
    assert makers == {"domains/organizations/membership.py"} | by_key


def calls(source: str, name: str) -> bool:
    """Whether a module calls a plain name."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in ast.walk(ast.parse(source))
    )


def test_a_violation_would_be_found() -> None:
    head = "_WHERE = 'organization_id = %s'\n"
    violations = [
        "async def a(db):\n    await db.execute('SELECT 1 FROM plant')",
        "async def a(db, org: OrgScope):\n    await db.execute('SELECT 1 FROM plant WHERE id = %s', org)",
        "async def a(db, org: OrgScope):\n    await db.execute('DELETE FROM sub_device WHERE organization_id = 1')",
        "async def a(db, org: UUID):\n    await db.execute(f'UPDATE plant SET name = 1 WHERE {_WHERE}', org)",
    ]
    for violation in violations:
        assert list(unscoped(head + violation)) == ["a"]
    fine = [
        "async def a(db, org: OrgScope):\n    await db.execute(f'SELECT 1 FROM plant WHERE {_WHERE}', org.organization_id)",
        "async def a(db, platform: PlatformScope):\n    await db.execute('SELECT 1 FROM plant')",
        "async def a(db):\n    await db.execute('SELECT 1 FROM organization')",
        "async def a(db):\n    'Rows FROM plant.'\n    await db.execute('SELECT 1')",
    ]
    for harmless in fine:
        assert list(unscoped(head + harmless)) == []
    assert calls("x = OrgScope(1)", "OrgScope")
    assert not calls("def f(scope: OrgScope): ...", "OrgScope")
    assert beyond("from gridfleet.domains.plants.commands.expiry import expire_due") == {"expire_due"}
    assert beyond("from gridfleet.domains.vcp import intake as x\nx.take_command()") == {"take_command"}
    assert beyond("from gridfleet.domains.vcp import intake\nintake.other()") == set()
