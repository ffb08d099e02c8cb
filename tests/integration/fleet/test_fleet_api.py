"""The fleet over HTTP: who may read it, what is refused, pages, keys, and other organisations."""

import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gridfleet.domains.fleet.plants.listing import decode_position
from gridfleet.domains.partners.key_text import make_key
from gridfleet.kernel.ids import new_id
from support.clients.plants_over_http import Fleet, fleet_over_http

ZEROS = {"produced": 0.0, "imported": 0.0, "exported": 0.0, "charged": 0.0, "discharged": 0.0}


@pytest.fixture
async def fleet(database_url: str, home: Path) -> AsyncIterator[Fleet]:
    """An organisation of the test's own."""
    async with fleet_over_http(database_url, home) as found:
        yield found


async def listed(fleet: Fleet, headers: dict[str, str] | None = None, **query: Any) -> tuple[int, Any]:
    return await fleet.call("GET", f"/fleet/plants?{urlencode(query, doseq=True)}", None, headers or fleet.viewer)


async def add_key(fleet: Fleet, scopes: Sequence[str], plants: Sequence[str] | None = None) -> dict[str, str]:
    """Return the headers of a new key of the organisation."""
    key = make_key()
    await fleet.sql(
        "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, vhost, created_by,"
        " activated_at, allowed_plant_ids) SELECT %s, %s::uuid, 'K', 'p', %s, %s, %s, '-', id, now(), %s::uuid[]"
        " FROM user_account LIMIT 1",
        *(new_id(), fleet.admin["x-org-id"], key.prefix, key.digest, list(scopes), plants),
    )
    return {"x-api-key": key.text}


async def report(fleet: Fleet, plant_id: str, pv: float) -> None:
    """Store the newest power of an ONLINE plant."""
    await fleet.sql("UPDATE plant SET status = 'ONLINE', last_seen_at = now() WHERE id = %s::uuid", plant_id)
    await fleet.sql("INSERT INTO plant_power (plant_id, measured_at, pv_kw) VALUES (%s, now(), %s)", plant_id, pv)


async def test_an_empty_fleet(fleet: Fleet) -> None:
    assert await listed(fleet) == (200, {"data": [], "meta": {"limit": 50, "total": 0, "nextCursor": None}})
    status, summary = await fleet.call("GET", "/fleet/summary", None, fleet.viewer)
    assert (status, summary.pop("asOf")[-1]) == (200, "Z")
    assert summary == {
        "plants": 0,
        "status": {"online": 0, "offline": 0, "unknown": 0},
        "offlineInUse": 0,
        "lifecycleStatus": {"pending": 0, "active": 0, "suspended": 0, "decommissioned": 0},
        "alerts": {"info": 0, "warning": 0, "critical": 0, "emergency": 0, "plants": 0},
        "power": {"pvKw": None, "batteryKw": None, "gridKw": None, "loadKw": None, "freshPlants": 0, "stalePlants": 0},
        "storage": {"storedKwh": 0.0, "usableKwh": 0.0, "plants": 0},
        "energyToday": ZEROS,
        "energyMonth": ZEROS,
    }


async def test_a_row_and_the_totals(fleet: Fleet) -> None:
    plant = await fleet.plant(name="Roof")
    await report(fleet, plant["id"], 4.5)
    status, found = await listed(fleet, fleet.viewer, q="oof")
    [row] = found["data"]
    seen, measured = row.pop("lastSeenAt"), row["power"].pop("measuredAt")
    assert status == 200
    assert seen[-1] == measured[-1] == "Z"
    assert row == {
        "id": plant["id"],
        "name": "Roof",
        "serialNumber": plant["serialNumber"],
        "status": "ONLINE",
        "lifecycleStatus": "PENDING",
        "templateId": None,
        "createdAt": plant["createdAt"],
        "power": {"pvKw": 4.5, "batteryKw": None, "gridKw": None, "loadKw": None, "fresh": True},
        "soc": None,
        "energyToday": None,
        "openAlerts": 0,
        "worstAlert": None,
        "lastRefusedAt": None,
    }
    _, summary = await fleet.call("GET", "/fleet/summary")
    assert (summary["plants"], summary["power"]["pvKw"], summary["power"]["freshPlants"]) == (1, 4.5, 1)


async def test_every_role_reads_its_own_organisation_alone(fleet: Fleet) -> None:
    plant = await fleet.plant()
    for headers in (fleet.viewer, fleet.operator, fleet.admin, fleet.super_admin):
        status, found = await listed(fleet, headers)
        assert (status, [row["id"] for row in found["data"]]) == (200, [plant["id"]])
    for query in ({}, {"q": "Roof"}, {"cursor": None}):
        status, found = await listed(fleet, fleet.stranger, **{name: value for name, value in query.items() if value})
        assert (status, found["data"], found["meta"]["total"]) == (200, [], 0)
    assert (await fleet.call("GET", "/fleet/summary", None, fleet.stranger))[1]["plants"] == 0
    assert (await listed(fleet, {"x-org-id": fleet.admin["x-org-id"]}))[1]["code"] == "UNAUTHORIZED"


async def test_one_plant_is_found_by_its_id(fleet: Fleet) -> None:
    plant = await fleet.plant(name="Roof")
    await fleet.plant(name="Barn", serialNumber="SN-B")
    for headers, names in ((fleet.viewer, ["Roof"]), (fleet.stranger, [])):
        _, found = await listed(fleet, headers, plantId=plant["id"])
        assert ([row["name"] for row in found["data"]], found["meta"]["total"]) == (names, len(names))


async def test_a_group_and_a_cursor_of_another_organisation_show_nothing_of_it(fleet: Fleet) -> None:
    plants = [await fleet.plant(name=name, serialNumber=name) for name in ("A", "B")]
    _, group = await fleet.call("POST", "/plant-groups", {"name": "G"})
    await fleet.call("POST", f"/plant-groups/{group['id']}/plants", {"plantIds": [plants[0]["id"]]})
    _, page = await listed(fleet, limit=1)
    assert [row["name"] for row in (await listed(fleet, groupId=group["id"]))[1]["data"]] == ["A"]
    assert (await listed(fleet, fleet.stranger, groupId=group["id"]))[1]["data"] == []
    assert (await listed(fleet, fleet.stranger, cursor=page["meta"]["nextCursor"]))[1]["data"] == []


async def test_keys_read_their_plants_with_the_scope_for_telemetry(fleet: Fleet) -> None:
    plants = [await fleet.plant(name=name, serialNumber=name) for name in ("A", "B", "C")]
    for plant in plants:
        await report(fleet, plant["id"], 2.0)
    for allowed, names in ((None, ["A", "B", "C"]), ([plants[1]["id"]], ["B"])):
        key = await add_key(fleet, ["telemetry:read"], allowed)
        _, found = await listed(fleet, key)
        assert ([row["name"] for row in found["data"]], found["meta"]["total"]) == (names, len(names))
        _, summary = await fleet.call("GET", "/fleet/summary", None, key)
        assert (summary["plants"], summary["power"]["pvKw"]) == (len(names), 2.0 * len(names))
    without = await add_key(fleet, ["plants:read", "vcp:read"])
    for path in ("/fleet/plants", "/fleet/summary"):
        status, error = await fleet.call("GET", path, None, without)
        assert (status, error["code"]) == (403, "FORBIDDEN")


async def test_pages_of_each_sort_continue_where_they_ended(fleet: Fleet) -> None:
    for name in ("b", "A", "c", "a", "B"):
        await fleet.plant(name=name, serialNumber=str(new_id()))
    for sort in ("name", "createdAt", "lastSeenAt", "pv", "alert", "status", "energyToday"):
        for order in ("asc", "desc"):
            found: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                _, page = await listed(fleet, sort=sort, order=order, limit=2, **cursor)
                found += [row["name"] for row in page["data"]]
                assert page["meta"]["total"] == 5
                if page["meta"]["nextCursor"] is None:
                    break
                cursor = {"cursor": page["meta"]["nextCursor"]}
            assert sorted(found) == ["A", "B", "a", "b", "c"]
            if sort == "name":
                expected = ["a", "a", "b", "b", "c"]
                assert [name.lower() for name in found] == (expected if order == "asc" else expected[::-1])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"q": ""}, "q"),
        ({"q": "x" * 101}, "q"),
        ({"q": "a\0b"}, "q"),
        ({"status": "AWAKE"}, "status.0"),
        ({"lifecycleStatus": ["ACTIVE", "GONE"]}, "lifecycleStatus.1"),
        ({"groupId": "7"}, "groupId"),
        ({"templateId": "x"}, "templateId"),
        ({"plantId": "x"}, "plantId"),
        ({"alert": "LOUD"}, "alert"),
        ({"sort": "organization_id"}, "sort"),
        ({"sort": ["name", "pv"]}, "sort"),
        ({"order": "up"}, "order"),
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"page": 1}, "page"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "x" * 1001}, "cursor"),
        ({"cursor": "e30"}, "cursor"),
        ({"cursor": "ÿ"}, "cursor"),
    ],
)
async def test_bad_input_is_named(fleet: Fleet, query: dict[str, Any], field: str) -> None:
    status, error = await listed(fleet, **query)
    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert [line.split(":")[0] for line in error["details"]] == [field]


async def test_a_cursor_belongs_to_its_sort_and_order(fleet: Fleet) -> None:
    for name in ("A", "B"):
        await fleet.plant(name=name, serialNumber=name)
    _, page = await listed(fleet, limit=1)
    cursor = page["meta"]["nextCursor"]
    for query in ({"sort": "pv"}, {"order": "desc"}):
        status, error = await listed(fleet, cursor=cursor, **query)
        assert (status, error["details"]) == (400, ["cursor: must be the nextCursor of a page with the same sort and order"])


@pytest.mark.parametrize(
    "text",
    [
        "!",
        "e30",
        "W10",
        "WyJuYW1lIiwiYXNjIiwxLCJ4Il0",  # an id that is none
        "WyJwdiIsImFzYyIsIngiLCIwMTkyZjBjMS0yYzFhLTdjM2UtOWIwYS0zZDFmNWEyYjRjNmQiXQ",  # a text as power
        "WyJsYXN0U2VlbkF0IiwiYXNjIiwieCIsIjAxOTJmMGMxLTJjMWEtN2MzZS05YjBhLTNkMWY1YTJiNGM2ZCJd",  # a text as time
        "WyJuYW1lIiwiYXNjIiwiXHUwMDAwIiwiMDE5MmYwYzEtMmMxYS03YzNlLTliMGEtM2QxZjVhMmI0YzZkIl0",  # a character that no text has
    ],
)
def test_a_forged_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a cursor|another type|no such text|isoformat"):
        decode_position(text)


@pytest.mark.parametrize("moment", ["2026-01-01 00:00:00+20:00", "2026-W05-1", "0001-01-01T00:00:00+23:00", "2026-01-01"])
async def test_a_cursor_with_a_time_that_only_python_reads_is_refused(fleet: Fleet, moment: str) -> None:
    position = json.dumps(["lastSeenAt", "asc", moment, str(new_id())]).encode()
    status, error = await listed(fleet, sort="lastSeenAt", cursor=urlsafe_b64encode(position).decode().rstrip("="))
    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert error["details"][0].startswith("cursor: ")


@pytest.mark.parametrize(("soc", "capacity"), [(5e-324, 50.0), (1e12, 1e308), (50.0, 5e-324), (1e-300, 1e-300), (100.0, 1e308)])
async def test_totals_of_plants_that_report_or_whose_esm_states_extreme_numbers(
    fleet: Fleet, soc: float, capacity: float
) -> None:
    for number in range(3):
        plant = await fleet.plant(serialNumber=f"SN-{number}")
        await report(fleet, plant["id"], 1.0)
        await fleet.sql("UPDATE plant_power SET soc = %s WHERE plant_id = %s::uuid", soc, plant["id"])
        await fleet.sql("UPDATE plant SET capacity_kwh = %s WHERE id = %s::uuid", capacity, plant["id"])
    status, summary = await fleet.call("GET", "/fleet/summary", None, fleet.viewer)
    assert status == 200
    storage = summary["storage"]
    assert storage["usableKwh"] == pytest.approx(3 * min(capacity, 1e12))
    assert storage["storedKwh"] == pytest.approx(storage["usableKwh"] * soc / 100)


async def test_totals_are_those_after_a_change_over_the_api(fleet: Fleet) -> None:
    assert (await fleet.call("GET", "/fleet/summary"))[1]["plants"] == 0
    await fleet.plant()
    assert (await fleet.call("GET", "/fleet/summary"))[1]["plants"] == 1
