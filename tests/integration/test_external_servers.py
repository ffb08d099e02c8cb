"""`gridfleet up` with the database and broker of others."""

import shutil
from pathlib import Path

from support.servers.broker_node import BrokerNode
from support.servers.running_stack import RunningStack


def test_runs_on_an_external_database_and_broker(home: Path, database_url: str, broker: BrokerNode) -> None:
    node = broker.settings
    (home / "secrets").mkdir()
    for secret in ("internal_secret", "keys"):
        shutil.copy(node.home / "secrets" / secret, home / "secrets" / secret)
    stack = RunningStack(
        home,
        changes={
            "database_url": database_url,
            "broker_url": broker.url,
            "broker_management_url": broker.management_url,
            "internal_port": node.internal_port,
        },
    )
    try:
        stack.start()
        assert set(stack.state["processes"]).isdisjoint({"postgres", "broker", "epmd"})
        stack.wait_until_healthy()
        assert stack.stop() == 0
    finally:
        stack.destroy()
