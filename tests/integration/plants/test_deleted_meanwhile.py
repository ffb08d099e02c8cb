"""Calls about something that another request deletes or changes at the same moment are answered as if they came after it."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

from gridfleet.kernel.ids import new_id
from support.builders.api_keys import key_headers
from support.builders.interleaving import until_blocked
from support.clients.plants_over_http import Fleet


async def meanwhile(fleet: Fleet, change: str, changed: str, call: Coroutine[Any, Any, tuple[int, Any]]) -> tuple[int, Any]:
    """Return the answer to a call that waits for a change which it cannot see yet."""
    database = fleet.service.state.database
    async with database.transaction() as db:
        await db.execute(change.encode(), (changed,))
        answering = asyncio.create_task(call)
        await until_blocked(database)
    return await answering


async def test_plants_are_added_to_a_group_that_is_deleted(fleet: Fleet) -> None:
    plant = (await fleet.plant())["id"]
    group = (await fleet.call("POST", "/plant-groups", {"name": "South"}))[1]["id"]
    call = fleet.call("POST", f"/plant-groups/{group}/plants", {"plantIds": [plant]})
    status, answer = await meanwhile(fleet, "DELETE FROM plant_group WHERE id = %s", group, call)
    assert (status, answer["code"]) == (404, "NOT_FOUND"), answer


async def test_a_group_is_deleted_to_which_a_plant_is_added(fleet: Fleet) -> None:
    """The caller may not see the plant, so the group must stay."""
    visible, hidden = [(await fleet.plant(serialNumber=serial))["id"] for serial in ("SN-1", "SN-2")]
    group = (await fleet.call("POST", "/plant-groups", {"name": "South"}))[1]["id"]
    organization = UUID(fleet.admin["x-org-id"])
    _, limited = await key_headers(fleet.service.state.database, organization, ["plants:write"], [UUID(visible)])
    addition = f"INSERT INTO plant_group_member (plant_group_id, plant_id) VALUES (%s, '{hidden}')"
    status, answer = await meanwhile(fleet, addition, group, fleet.call("DELETE", f"/plant-groups/{group}", headers=limited))
    assert (status, answer["code"]) == (403, "FORBIDDEN"), answer
    assert [plant["id"] for plant in (await fleet.call("GET", f"/plant-groups/{group}"))[1]["plants"]] == [hidden]


async def test_plants_are_imported_with_a_template_that_is_deleted(fleet: Fleet) -> None:
    template = str(new_id())
    await fleet.sql(
        "INSERT INTO device_template (id, name, type, level, version, signals, actions)"
        " VALUES (%s, 'Roof', 'BATTERY', 'PLANT', 1, '[]', '[]')",
        template,
    )
    headers = {**fleet.operator, "content-type": "text/csv"}
    content = f"name,serialNumber,type,templateId\nRoof,SN-1,GATEWAY,{template}\n"

    async def send() -> tuple[int, Any]:
        answer = await fleet.service.client.post("/api/v1/plants/import", content=content, headers=headers)
        return answer.status_code, answer.json()

    status, answer = await meanwhile(fleet, "DELETE FROM device_template WHERE id = %s", template, send())
    assert (status, answer["details"]) == (400, ["templateId: a template of the file was deleted at the same time"]), answer
