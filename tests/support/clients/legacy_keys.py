"""Keys that are imported with `gridfleet keys import`."""

import csv
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from gridfleet.protocol.partner_routes import EventKind, event_queue
from support.clients.fleet_under_test import JsonObject
from support.clients.partner_organization import Organization
from support.servers.running_stack import RunningStack


class Legacy(NamedTuple):
    """An organisation with a key in the shared vhost."""

    org: Organization
    key: JsonObject

    def queue(self, kind: EventKind) -> str:
        """Return the name of an event queue."""
        return event_queue(self.org.slug, kind)

    @property
    def queues(self) -> list[str]:
        """Return the names of the organisation's queues."""
        return [f"{self.org.slug}.inbound", f"vcp.{self.org.slug}.dropped", *(self.queue(kind) for kind in EventKind)]


def import_keys(stack: RunningStack, folder: Path, rows: list[dict[str, str]]) -> "subprocess.CompletedProcess[str]":
    """Run `gridfleet keys import`."""
    file = folder / "keys.csv"
    with file.open("w", newline="") as output:
        writer = csv.DictWriter(output, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    argv = (sys.executable, "-m", "gridfleet", "keys", "import", str(file))
    return subprocess.run(argv, env=stack.environment, text=True, capture_output=True, timeout=120, check=False)


def created(text: str, key_id: str) -> JsonObject:
    """Return an imported key in the form of the response that creates a key."""
    return {"key": text, "apiKey": {"id": key_id, "vhost": "/"}}
