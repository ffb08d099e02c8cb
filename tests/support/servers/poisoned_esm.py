"""Two organisations with trading, each with its own ESM. One ESM sends poisoned responses."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from gridfleet.kernel.db.jobs import defer
from support.builders.poison import poisoned
from support.clients.plants_over_http import Fleet, fleet_over_http
from support.servers.esm_stand_in import CLIENT_ID, SECRET, Conversation, StandIn, esm_stand_in
from support.servers.postbox import work_off

IN_TIME_SECONDS: Final = 10.0
"""Limit for a sync, plan, config or meter query of the organisation with the sound ESM, on a busy machine."""

_BLOCK: Final = {"from": "00:00", "to": "24:00", "pBatMin": -5, "pBatMax": 5, "socMin": 10, "socMax": 90}
_PLANT: Final[dict[str, Any]] = {
    "externalPlantId": "P1",
    "description": "South",
    "capacityKwh": 120.5,
    "fvePeakPowerKwp": 80,
    "configEnabled": True,
    "plantWithLoad": False,
    "esiState": "PLC_READY",
    "latitude": 50.1,
    "longitude": 14.4,
    "tag": "north",
}
_READING: Final = {"time": "2026-11-20T10:00:00Z", "meter_id": "M", "interval": 5, "energy": 1}
_REQUEST: Final = "@request@"
"""Placeholder for the code of the request that is answered."""
_PLAN: Final = {
    "requestCode": _REQUEST, "resultCode": "OK", "message": "accepted", "isError": False, "isTerminal": True, "version": 2
}  # fmt: skip
_METERS: Final = "meters?from=2026-11-20T10:00:00Z&to=2026-11-20T11:00:00Z&bucketMinutes=30"
_CODES: Final = {"BAD_REQUEST", "INTERNAL_SERVER_ERROR"}
"""Codes of the contract. The second one means a fault of the service itself unless its message names the ESM."""

ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "token": {"access_token": "t", "token_type": "Bearer", "expires_in": 3600},
    "plants": {"plants": [_PLANT, {**_PLANT, "externalPlantId": "P2"}]},
    "config": {"configEnabled": True, "esiState": "PLC_READY", "version": 1, "timeConfigs": [_BLOCK]},
    "plan": _PLAN,
    "validation": _PLAN,
    "meters": {"readings": [_READING, {**_READING, "time": "2026-11-20T10:05:00Z"}]},
}

Answer = tuple[str, bytes]
"""The kind of request, and the content of the response."""


def of_an_esm() -> st.SearchStrategy[Answer]:
    """Strategy for any response of an ESM."""
    return st.one_of([st.tuples(st.just(kind), poisoned(sample)) for kind, sample in ANSWERS.items()])


@dataclass
class PoisonedTrading:
    """`bad` is the ESM of the admin's organisation, `sound` that of the stranger's."""

    fleet: Fleet
    bad: StandIn
    sound: StandIn
    plant: str
    other: str
    rounds: int = 0

    async def round(self, answers: Sequence[Answer]) -> None:
        """Send poisoned responses to one organisation while the other works."""
        caller = asyncio.create_task(self._request_all(answers))
        try:
            await self._others_are_served()
        finally:
            await caller
        for path in (f"/plants/{self.plant}", f"/trading/plants/{self.plant}/config-log", "/trading/config"):
            status, _ = await self.fleet.call("GET", path)
            assert status == 200, path

    async def sync_job(self, content: bytes) -> None:
        """Run the periodic sync. The plant of the sound ESM must be updated."""
        self.rounds += 1
        self.sound.plants = [_PLANT | {"tag": f"job {self.rounds}"}]
        self._poison("plants", content)
        state = self.fleet.service.state
        async with state.database.transaction() as db:
            await defer(db, "trading.sync_plants", {"timestamp": 0})
        async with asyncio.timeout(IN_TIME_SECONDS):
            await work_off(state)
        assert (await self._of_other("GET", f"/plants/{self.other}"))["tag"] == f"job {self.rounds}"
        assert await self.fleet.sql("SELECT status::text FROM procrastinate_jobs WHERE task_name = 'trading.sync_plants'") == []

    async def _request_all(self, answers: Sequence[Answer]) -> None:
        path = f"/trading/plants/{self.plant}"
        plan = {"timeConfigs": [_BLOCK]}
        for kind, content in answers:
            self._poison(kind, content)
            match kind:
                case "plan":
                    status, answer = await self.fleet.call("POST", f"{path}/config", plan)
                case "validation":
                    status, answer = await self.fleet.call("POST", f"{path}/config/validate", plan)
                case "plants":
                    status, answer = await self.fleet.call("POST", "/trading/plants/sync")
                case "meters":
                    status, answer = await self.fleet.call("GET", f"{path}/{_METERS}")
                case _:
                    status, answer = await self.fleet.call("GET", f"{path}/config")
            if status >= 300:
                assert answer["code"] in _CODES, (kind, content, answer)
                assert "ESM" in answer["message"], (kind, content, answer)
            elif kind == "meters":
                assert all(isinstance(row["energy"], int | float) for row in answer), (content, answer)

    def _poison(self, kind: str, content: bytes) -> None:
        def answer(conversation: Conversation) -> None:
            body = content
            if kind in ("plan", "validation"):
                body = body.replace(_REQUEST.encode(), conversation.stand_in.seen[-1].json["requestCode"].encode())
            conversation.say(200, body)

        # A fault left from an earlier request would answer the next one.
        self.bad.faults.clear()
        self.bad.token_faults.clear()
        if kind == "token":
            self.bad.forget_tokens()
            self.bad.token_faults.append(answer)
        else:
            self.bad.faults.append(answer)

    async def _others_are_served(self) -> None:
        self.rounds += 1
        path, tag = f"/trading/plants/{self.other}", f"round {self.rounds}"
        self.sound.plants = [_PLANT | {"tag": tag}]
        async with asyncio.timeout(IN_TIME_SECONDS):
            assert await self._of_other("POST", "/trading/plants/sync") == {"synced": 1, "errors": 0}
            change = await self._of_other("POST", f"{path}/config", {"timeConfigs": [_BLOCK]})
            assert (change["resultCode"], change["isError"]) == ("OK", False)
            assert (await self._of_other("GET", f"{path}/config"))["timeConfigs"] == [_BLOCK]
            rows = await self._of_other("GET", f"{path}/{_METERS}")
        assert [(row["interval"], row["energy"]) for row in rows] == [(30, 6)]
        assert (await self._of_other("GET", f"/plants/{self.other}"))["tag"] == tag

    async def _of_other(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = await self.fleet.call(method, path, body, self.fleet.stranger)
        assert 200 <= status < 300, answer
        return answer


@asynccontextmanager
async def poisoned_trading(database_url: str, home: Path) -> AsyncIterator[PoisonedTrading]:
    """Yield both organisations with trading enabled and a plant linked to P1 of their ESM."""
    with esm_stand_in() as bad, esm_stand_in() as sound:
        async with fleet_over_http(database_url, home, esm_allow_private=True) as fleet:
            plants: list[str] = []
            for esm, headers in ((bad, fleet.admin), (sound, fleet.stranger)):
                settings = {"esmApiUrl": esm.url, "esmClientId": CLIENT_ID, "esmClientSecret": SECRET}
                assert (await fleet.call("POST", "/trading/config", settings, headers))[0] == 200
                assert (await fleet.call("POST", "/trading/config/enable", headers=headers))[0] == 200
                body = {"name": "P1", "serialNumber": headers["x-org-id"], "type": "GATEWAY"}
                plants.append((await fleet.call("POST", "/plants", body, headers))[1]["id"])
                link = {"externalPlantId": "P1"}
                assert (await fleet.call("PATCH", f"/plants/{plants[-1]}", link, headers))[0] == 200
                esm.configs["P1"] = {"configEnabled": True, "esiState": "PLC_READY", "version": 1, "timeConfigs": []}
                esm.readings["P1"] = [{**_READING, "time": f"2026-11-20T10:{minute:02}:00Z"} for minute in range(0, 30, 5)]
            yield PoisonedTrading(fleet, bad, sound, plant=plants[0], other=plants[1])
