"""Checks of the database: connection, version, durability, migrations, clock, and the keys that its rows need."""

import asyncio
import re
from functools import partial
from typing import Final

import psycopg

from gridfleet.cli.doctor.models import Examination, Finding, fail, ok, warn
from gridfleet.cli.doctor.shards import check_shards
from gridfleet.domains.maintenance.keyring_check import WrongKeyring, check_keyring
from gridfleet.domains.telemetry.rollups.recomputation import set_aside_hours
from gridfleet.kernel.db import BehindPooler, open_database, refuse_pooler, set_aside
from gridfleet.kernel.db.inspection import ServerFacts, inspect_server
from gridfleet.kernel.db.migrate import head_revision, is_behind, revision_at
from gridfleet.kernel.db.replica import ReplicaBehind, seconds_behind
from gridfleet.kernel.db.roles import role_without_rights
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["check_clock", "check_database", "standby_finding"]

_OLDEST: Final = 150_000
_CROWDED: Final = 0.8
_CLOCK_WARN_SECONDS: Final = 2.0
_CLOCK_FAIL_SECONDS: Final = 60.0
_MOST_HOURS: Final = 1_000
_SHOWN_HOURS: Final = 5
_REPLICA_SECONDS: Final = 5
_STANDBYS: Final = re.compile(r"\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_STANDBY_NAME: Final = re.compile(r'"(?:[^"]|"")+"|[^\s,"]+')


async def check_database(examined: Examination) -> list[Finding]:
    """Return all findings about the server and its content; only the first one if the server does not respond."""
    if examined.database_url is None:
        return [
            fail(
                "database",
                f"not found in {examined.home}",
                "start `gridfleet up` there, set GRIDFLEET_HOME to the home folder, or a server with GRIDFLEET_DATABASE_URL",
            )
        ]
    try:
        await refuse_pooler(examined.database_url)
        facts = await asyncio.to_thread(inspect_server, examined.database_url)
        ahead = examined.clock() - facts.now
        role = await asyncio.to_thread(role_without_rights, examined.database_url)
        revision = None if role else await asyncio.to_thread(revision_at, examined.database_url)
    except BehindPooler as error:
        return [fail("database", str(error), "see docs/deployment.md")]
    except psycopg.Error as error:
        return [
            fail(
                "database",
                f"does not respond: {str(error).strip().splitlines()[0]}",
                "start it (`gridfleet up` starts the embedded one), and check GRIDFLEET_DATABASE_URL",
            )
        ]
    found = [*_server(facts), check_clock("clock against the database", ahead.total_seconds())]
    if not examined.embedded_database:
        found.append(standby_finding(facts))
    if examined.settings.database_read_url is not None:
        found.append(await _read_replica(examined, examined.database_url))
    if role is not None:
        remedy = f"run `gridfleet db grant {role}` as the owner, after each upgrade and restore: docs/deployment.md"
        return [*found, fail("database rights", f"{role} may not read every table", remedy)]
    found.append(_migrations(revision))
    if not is_behind(revision):
        found += await _keys(examined, examined.database_url)
        found.append(await _roll_ups(examined.database_url))
        found.append(await _set_aside(examined.database_url))
        found += await check_shards(examined.database_url)
    return found


def check_clock(check: str, ahead_seconds: float, precision_seconds: float = 0.0) -> Finding:
    """Compare our clock with another one.

    Args:
        check: The finding's name.
        ahead_seconds: How far our clock is ahead of the other.
        precision_seconds: The resolution of the other clock.
    """
    off = max(0.0, abs(ahead_seconds) - precision_seconds)
    found = f"{off:.1f} s {'ahead' if ahead_seconds > 0 else 'behind'}"
    remedy = "set up time synchronisation (chrony, systemd-timesyncd) on both machines"
    if off > _CLOCK_FAIL_SECONDS:
        return fail(check, found, remedy)
    return warn(check, found, remedy) if off > _CLOCK_WARN_SECONDS else ok(check, found)


def _server(facts: ServerFacts) -> list[Finding]:
    answers = f"PostgreSQL {facts.version_text} responds"
    found = [
        ok("database", answers)
        if facts.version >= _OLDEST
        else fail("database", answers, "upgrade the server to PostgreSQL 15 or newer")
    ]
    if not facts.fsync:
        remedy = "set fsync and full_page_writes to on: otherwise a power cut may destroy the database"
        found.append(fail("database durability", "fsync or full_page_writes is off", remedy))
    elif not facts.synchronous:
        remedy = "set synchronous_commit to on: messages are confirmed before they are safe"
        found.append(warn("database durability", "synchronous_commit is off", remedy))
    else:
        found.append(ok("database durability", "a commit is on disk"))
    used = f"{facts.connections} of {facts.max_connections} connections are in use"
    crowded = facts.connections > _CROWDED * facts.max_connections
    remedy = "raise max_connections, or lower GRIDFLEET_DATABASE_POOL_SIZE"
    found.append(warn("database connections", used, remedy) if crowded else ok("database connections", used))
    return found


def standby_finding(facts: ServerFacts) -> Finding:
    """Report whether confirmed messages are on more than one disk."""
    check = "database standbys"
    if not facts.wanted_standbys:
        remedy = "set synchronous_standby_names, unless the disk itself is replicated: docs/scaling.md"
        return warn(check, "none is synchronous: confirmed messages are on one disk", remedy)
    needed, listed = _standbys_of(facts.wanted_standbys)
    # Those that a commit may wait for, and those that may take their place. The state is None for a role that may not see it.
    ready = sum(state in (None, "sync", "quorum") for state in facts.standbys)
    connected = sum(state != "async" for state in facts.standbys)
    if ready < needed:
        remedy = "start the standbys that synchronous_standby_names lists: with fewer than it needs, commits wait"
        number = f"{ready} of the {needed} for" if ready else "none of"
        return fail(check, f"{number} {facts.wanted_standbys} is connected", remedy)
    if connected < listed:
        remedy = "start the others, or remove their names: if too few are left, commits wait"
        return warn(check, f"{connected} of the {listed} in {facts.wanted_standbys} are connected", remedy)
    return ok(check, f"a commit waits for {facts.wanted_standbys}")


def _standbys_of(names: str) -> tuple[int, int]:
    """Return how many standbys `synchronous_standby_names` needs and lists. `*` counts as the needed number."""
    match = _STANDBYS.fullmatch(names)
    needed, inner = (int(match[1]), match[2]) if match else (1, names)
    listed = _STANDBY_NAME.findall(inner)
    return needed, needed if "*" in listed else len(listed)


async def _read_replica(examined: Examination, url: str) -> Finding:
    """Report whether history is read from the replica."""
    check, limit = "read replica", examined.settings.database_read_lag_seconds
    away = "history is read from the primary"
    read_url = examined.settings.secret("database_read_url").get_secret_value()
    remedy = "check GRIDFLEET_DATABASE_READ_URL"
    try:
        await refuse_pooler(read_url, "GRIDFLEET_DATABASE_READ_URL")
        opened = partial(open_database, name="gridfleet-doctor", size=1, wait_seconds=_REPLICA_SECONDS)
        async with opened(read_url) as replica, opened(url) as primary:
            seconds = await seconds_behind(replica, primary, limit)
    except BehindPooler as error:
        return fail(check, str(error), "see docs/deployment.md")
    except ReplicaBehind:
        return warn(check, f"was promoted, or is not a replica of the database: {away}", remedy)
    except psycopg.Error as error:
        return warn(check, f"does not respond: {away} ({type(error).__name__})", f"start it, and {remedy}")
    if seconds > limit:
        remedy = "see pg_stat_replication at the primary, and GridfleetReplicaBehind in docs/metrics.md"
        return warn(check, f"lags more than {limit:g} s: {away}", remedy)
    return ok(check, f"lags {seconds:.1f} s")


def _migrations(revision: str | None) -> Finding:
    wanted = head_revision()
    if revision == wanted:
        return ok("migrations", f"schema at revision {revision}")
    text = f"schema at revision {revision}, this release needs {wanted}"
    if is_behind(revision):
        return fail("migrations", text, "run `gridfleet db upgrade`")
    return warn("migrations", f"{text}: it is a later release's", "complete the upgrade, or restore the backup from before it")


async def _keys(examined: Examination, url: str) -> list[Finding]:
    """Check that the keyring has every version that a row needs, and that it decrypts the authority's key."""
    try:
        keyring = Keyring.parse(examined.settings.secret("keys").get_secret_value())
    except (LookupError, ValueError) as error:
        return [fail("keyring", str(error), "set GRIDFLEET_KEYS, or restore secrets/keys from a backup")]
    try:
        async with open_database(url, name="gridfleet-doctor", size=1) as database, database.transaction() as db:
            authority = await check_keyring(db, keyring)
    except WrongKeyring as error:
        return [fail("keyring", str(error), error.remedy)]
    if authority is None:
        return [warn("certificate authority", "does not exist yet", "start `gridfleet serve`, which creates it")]
    versions = ", ".join(map(str, keyring.versions))
    return [ok("keyring", f"versions {versions}; {keyring.current_version} encrypts"), _expiry(examined, authority)]


async def _roll_ups(url: str) -> Finding:
    """Report the hours of telemetry that could not be rolled up."""
    async with open_database(url, name="gridfleet-doctor", size=1) as database, database.transaction() as db:
        hours = await set_aside_hours(db, _MOST_HOURS)
    if not hours:
        return ok("telemetry roll-ups", "none is set aside")
    count = f"at least {_MOST_HOURS}" if len(hours) == _MOST_HOURS else str(len(hours))
    shown = "; ".join(
        f"plant {one.plant_id}{f' {one.external_id}' if one.external_id else ''} {one.hour:%Y-%m-%d %H:%M}Z: {one.error}"
        f" ({one.attempts} tries)"
        for one in hours[:_SHOWN_HOURS]
    )
    more = ", …" if len(hours) > _SHOWN_HOURS else ""
    return warn(
        "telemetry roll-ups",
        f"hours set aside: {count} ({shown}{more})",
        "see GridfleetRollUpsSetAside in docs/metrics.md",
    )


async def _set_aside(url: str) -> Finding:
    """Report what was set aside in the last days."""
    async with open_database(url, name="gridfleet-doctor", size=1) as database, database.transaction() as db:
        items = await set_aside.newest(db, _SHOWN_HOURS)
    if not items:
        return ok("set aside", "nothing")
    shown = "; ".join(f"{one.at:%Y-%m-%d %H:%M}Z {one.consumer} {one.content.get('kind')}: {one.reason}" for one in items)
    return warn("set aside", f"the newest: {shown}", "see GridfleetSetAside in docs/metrics.md")


def _expiry(examined: Examination, authority: Authority) -> Finding:
    days = (authority.expires_at - examined.clock()).days
    text = f"ends {authority.expires_at:%Y-%m-%d}"
    remedy = "import a new one with `gridfleet ca import` and renew the plants' certificates"
    if days < 0:
        return fail("certificate authority", text, remedy)
    return warn("certificate authority", text, remedy) if days < 180 else ok("certificate authority", text)
