"""Distribution of tests over the workers of a run: files that share a server run in one worker, which starts it once."""

from collections.abc import Mapping
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

USERS: Final[Mapping[str, frozenset[str]]] = {
    "tests::stack": frozenset(
        {
            "tests/acceptance/test_accounts.py",
            "tests/acceptance/test_alerts.py",
            "tests/acceptance/test_backup.py",
            "tests/acceptance/test_commands.py",
            "tests/acceptance/test_guides.py",
            "tests/acceptance/test_main_path.py",
            "tests/acceptance/test_partner.py",
            "tests/acceptance/test_plant_life.py",
            "tests/acceptance/test_trading.py",
            "tests/console/test_mail_links.py",
            "tests/console/test_onboarding.py",
            "tests/console/test_plant.py",
            "tests/faults/test_revocation.py",
            "tests/integration/broker_access/test_left_behind.py",
            "tests/integration/broker_access/test_logins.py",
            "tests/integration/broker_access/test_mqtt_5.py",
            "tests/integration/broker_access/test_oversized.py",
            "tests/integration/broker_access/test_topics.py",
            "tests/integration/ingest/test_end_to_end.py",
            "tests/integration/ingest/test_two_processes.py",
            "tests/integration/partners/test_bounds.py",
            "tests/integration/partners/test_hostile_clients.py",
            "tests/integration/partners/test_legacy_flood.py",
            "tests/integration/partners/test_legacy_keys.py",
            "tests/integration/partners/test_logins.py",
            "tests/integration/partners/test_own_queues.py",
            "tests/integration/partners/test_queues.py",
            "tests/integration/partners/test_slow_clients.py",
            "tests/integration/partners/test_turns.py",
            "tests/integration/test_doctor.py",
            "tests/integration/test_simulate.py",
        }
    ),
    "tests/faults::victim": frozenset(
        {
            "tests/faults/test_commands.py",
            "tests/faults/test_kills.py",
            "tests/faults/test_partner.py",
            "tests/faults/test_telemetry_campaign.py",
        }
    ),
    "tests::broker": frozenset(
        {
            "tests/faults/test_poison_campaign.py",
            "tests/integration/broker_access/test_declarations.py",
            "tests/integration/broker_access/test_floods.py",
            "tests/integration/commands/test_sending.py",
            "tests/integration/ingest/test_attempts.py",
            "tests/integration/ingest/test_number_of_shards.py",
            "tests/integration/ingest/test_presence.py",
            "tests/integration/ingest/test_worker.py",
            "tests/integration/partners/test_client.py",
            "tests/integration/partners/test_former_prefix.py",
            "tests/integration/partners/test_queue_replacement.py",
            "tests/integration/partners/test_refused_keys.py",
            "tests/integration/partners/test_room_of_queues.py",
            "tests/integration/partners/test_slow_removals.py",
            "tests/integration/test_external_servers.py",
            "tests/integration/test_lost_connections.py",
            "tests/integration/test_management.py",
            "tests/integration/test_plant_channels.py",
            "tests/integration/test_poison.py",
            "tests/integration/test_publisher.py",
            "tests/integration/test_queue_types.py",
            "tests/integration/test_unrouted.py",
            "tests/integration/vcp/test_dropped_events.py",
            "tests/integration/vcp/test_gateway.py",
            "tests/integration/vcp/test_legacy_vhost.py",
            "tests/integration/vcp/test_lost_connections.py",
            "tests/integration/vcp/test_shares_of_partners.py",
            "tests/integration/vcp/test_surplus_events.py",
        }
    ),
    "tests/unit/sdk::broker": frozenset(
        {
            "tests/unit/sdk/test_addresses.py",
            "tests/unit/sdk/test_commands.py",
            "tests/unit/sdk/test_connection.py",
            "tests/unit/sdk/test_faults.py",
            "tests/unit/sdk/test_former_plant.py",
            "tests/unit/sdk/test_guide.py",
            "tests/unit/sdk/test_narrow_uplink.py",
            "tests/unit/sdk/test_queue_errors.py",
        }
    ),
}
"""Files by the shared server that their tests use, as the folder and name of its fixture. A file uses one of them at most."""
_SERVER_OF: Final = {file: server for server, files in USERS.items() for file in files}

LONGEST: Final = (
    "tests::stack",
    "tests/integration/test_up.py",
    "tests::broker",
    "tests/unit/sdk::broker",
    "tests/integration/test_private_broker.py",
    "tests/integration/test_bench_smoke.py",
    "tests/integration/test_sessions.py",
    "tests/console/test_session.py",
    "tests/console/test_live.py",
)
"""Servers with all their files, and files, that take a worker minutes, because servers start or tests wait. They run first,
beside each other: at the end of a run they would leave the other workers without work."""


class ByServers(LoadScopeScheduling):  # type: ignore[misc]
    """Scheduler that runs in one worker the tests of a file, and those of all files with the same server."""

    def _split_scope(self, nodeid: str) -> str:
        return _unit(nodeid)


def longest_first(items: list[pytest.Item]) -> None:
    """Move the tests of `LONGEST` to the front, in that order. All others keep theirs."""
    rank = {unit: number for number, unit in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(_unit(item.nodeid), len(rank)))


def _unit(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return _SERVER_OF.get(file, file)


def unlisted_server(item: pytest.Item) -> tuple[str, str] | None:
    """Return the server and the file of a test that uses a shared server for which its file is not listed."""
    if not isinstance(item, pytest.Function):
        return None
    file = item.nodeid.partition("::")[0]
    for name, definitions in item._fixtureinfo.name2fixturedefs.items():
        server = f"{definitions[-1].baseid}::{name}" if definitions else name
        if file not in USERS.get(server, {file}):
            return server, file
    return None
