"""Comparison of the simulator's ledger with the service's responses: history, newest values, daily energies, refusals."""

import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

ENERGY_TOLERANCE = 0.01
"""Permitted relative difference of a daily energy."""
ENERGY_ROUNDING_KWH = 0.002
_POLL_SECONDS = 0.5


@dataclass
class Ledger:
    """The lines of one simulation by kind."""

    lines: dict[str, list[dict[str, Any]]]

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            lines[entry["kind"]].append(entry)
        return cls(lines)

    @property
    def organization_id(self) -> str:
        return str(self.lines["run"][0]["organization"]["id"])

    @property
    def plant_ids(self) -> list[str]:
        return [line["plantId"] for line in self.lines["plant"]]

    def of(self, kind: str, plant_id: str) -> list[dict[str, Any]]:
        return [line for line in self.lines[kind] if line["plantId"] == plant_id]


@dataclass
class Comparison:
    """The result. `differences` is empty if the service returns what was sent."""

    values: int
    energies: int
    differences: list[str]


def compare_once_stored(ledger: Ledger, base_url: str, email: str, password: str, seconds: float = 60) -> Comparison:
    """Compare until there is no difference, for up to `seconds`, and return the last result.

    Ingest may be behind. The energy of a day that was read before its last message was stored is cached for 10 s.
    """
    deadline = time.monotonic() + seconds
    while (found := compare(ledger, base_url, email, password)).differences and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return found


def compare(ledger: Ledger, base_url: str, email: str, password: str) -> Comparison:
    """Query the service for everything in the ledger. The whole day of a plant must be in its ledger or its saved state."""
    with httpx.Client(base_url=f"{base_url}/api/v1", timeout=60) as api:
        token = api.post("/auth/login", json={"email": email, "password": password}).raise_for_status().json()["access_token"]
        api.headers.update({"authorization": f"Bearer {token}", "x-org-id": ledger.organization_id})
        found = Comparison(0, 0, [])
        for plant_id in ledger.plant_ids:
            _compare_values(ledger, plant_id, api, found)
            _compare_energy(ledger, plant_id, api, found)
            _compare_refusals(ledger, plant_id, api, found)
    return found


def _compare_values(ledger: Ledger, plant_id: str, api: httpx.Client, found: Comparison) -> None:
    sent = {line["time"]: line for line in ledger.of("snapshot", plant_id)}
    if not sent:
        return
    first, last = min(sent), max(sent)
    until = (datetime.fromisoformat(last) + timedelta(seconds=1)).isoformat().replace("+00:00", "Z")
    points = api.get("/telemetry", params={"plantId": plant_id, "from": first, "to": until}).raise_for_status().json()
    stored: dict[str, dict[str, float]] = defaultdict(dict)
    for point in points:
        stored[point["time"]][point["metric"]] = point["value"]
    for moment, line in sent.items():
        if moment not in stored and not line["acknowledged"]:
            continue
        found.values += len(line["values"])
        if stored.get(moment) != line["values"]:
            found.differences.append(f"{plant_id} {moment}: sent {line['values']}, stored {stored.get(moment)}")
    found.differences += [f"{plant_id} {moment}: never sent, but stored" for moment in stored.keys() - sent.keys()]
    latest = api.get(f"/telemetry/{plant_id}/latest").raise_for_status().json()
    shown = {point["metric"]: point["value"] for point in latest if point["time"] == last}
    if shown != sent[last]["values"]:
        found.differences.append(f"{plant_id} latest: sent {sent[last]['values']}, shown {shown}")


def _compare_energy(ledger: Ledger, plant_id: str, api: httpx.Client, found: Comparison) -> None:
    answer = api.get(f"/plants/{plant_id}/energy/today").raise_for_status().json()
    for line in ledger.of("energy", plant_id):
        if line["date"] == answer["date"]:
            for name in ("produced", "imported", "exported"):
                found.energies += 1
                if abs(line[name] - answer[name]) > max(ENERGY_TOLERANCE * line[name], ENERGY_ROUNDING_KWH):
                    found.differences.append(f"{plant_id} {name}: sent {line[name]} kWh, answered {answer[name]} kWh")


def _compare_refusals(ledger: Ledger, plant_id: str, api: httpx.Client, found: Comparison) -> None:
    answer = api.get(f"/plants/{plant_id}/refused-messages", params={"limit": 100}).raise_for_status().json()
    kept = {message["messageId"]: message["reason"] for message in answer["data"]}
    made = {line["messageId"]: line["reason"] for line in ledger.of("refused", plant_id)}
    if made.items() - kept.items():
        found.differences.append(f"{plant_id} refusals: made {Counter(made.values())}, kept {Counter(kept.values())}")
