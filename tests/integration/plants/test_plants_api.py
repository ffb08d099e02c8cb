"""Plants, sub-devices and templates over HTTP, on a real database."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from support.clients.plants_over_http import NEW_PLANT, Fleet, fleet_over_http

SIGNALS = [{"key": "p", "field": "power", "unit": "kW", "scale": 0.1}, {"key": "fault", "bit": 3}]


async def test_a_plant_is_created_listed_and_read(fleet: Fleet) -> None:
    first = await fleet.plant(metadata={"roof": ["east", 3]})
    second = await fleet.plant(serialNumber="SN-2", authMethod="TOKEN")

    assert (first["lifecycleStatus"], first["status"], first["authMethod"]) == ("PENDING", "UNKNOWN", "MTLS")
    status, page = await fleet.call("GET", "/plants?limit=1")
    assert status == 200
    assert [plant["id"] for plant in page["data"]] == [second["id"]]
    assert page["meta"] == {"page": 1, "limit": 1, "total": 2, "totalPages": 2}
    _, tokens = await fleet.call("GET", "/plants?authMethod=TOKEN")
    assert [plant["id"] for plant in tokens["data"]] == [second["id"]]
    status, alone = await fleet.call("GET", f"/plants/{first['id']}", headers=fleet.viewer)
    assert status == 200
    assert alone == first | {
        **dict.fromkeys(
            ("capacityKwh", "configEnabled", "description", "esiState", "fvePeakPowerKwp", "latitude", "longitude")
        ),
        "plantWithLoad": None,
        "tag": None,
        "alerts": [],
        "plantGroups": [],
    }


async def test_a_serial_number_is_taken_only_within_its_organisation(fleet: Fleet) -> None:
    await fleet.plant()

    status, error = await fleet.call("POST", "/plants", NEW_PLANT)
    assert (status, error["code"]) == (409, "PLANT_ALREADY_EXISTS")
    status, _ = await fleet.call("POST", "/plants", NEW_PLANT, fleet.stranger)
    assert status == 201


async def test_every_complaint_about_a_plant_is_listed(fleet: Fleet) -> None:
    status, error = await fleet.call(
        "POST", "/plants", {"name": " ", "serialNumber": "x" * 51, "type": "HOUSE", "metadata": {"a": "\0"}, "colour": 1}
    )

    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert [line.split(":")[0] for line in error["details"]] == ["name", "serialNumber", "type", "metadata.a", "colour"]


async def test_metadata_may_hold_any_double(fleet: Fleet) -> None:
    metadata = {"large": 1e20, "largest": 1.7976931348623157e308, "least": 5e-324}
    plant = await fleet.plant(metadata=metadata)
    status, page = await fleet.call("GET", "/plants")
    assert status == 200
    for shown in (plant, *page["data"]):
        assert {name: float(number) for name, number in shown["metadata"].items()} == metadata


async def test_metadata_are_bounded_wherever_they_are_given(fleet: Fleet) -> None:
    """A page of a hundred plants with a megabyte each would hold up all requests of the process."""
    complaint = "metadata: must have at most 32768 bytes as JSON"
    much, enough = {"note": "x" * 32_768}, {"note": "x" * 32_700}
    plant = await fleet.plant(metadata=enough)
    path = f"/plants/{plant['id']}"
    device = {"externalId": "INV1", "name": "Inverter", "type": "INVERTER"}
    for method, where, body in (
        ("POST", "/plants", {**NEW_PLANT, "serialNumber": "SN-2", "metadata": much}),
        ("PATCH", path, {"metadata": much}),
        ("POST", f"{path}/sub-devices", {**device, "metadata": much}),
    ):
        status, error = await fleet.call(method, where, body)
        assert (status, error["details"]) == (400, [complaint])
    status, _ = await fleet.call("POST", f"{path}/sub-devices", {**device, "metadata": enough})
    assert status == 201


async def test_another_organisations_plant_answers_as_an_absent_one(fleet: Fleet) -> None:
    plant = await fleet.plant()
    absent = str(uuid4())

    for method, path, body in (
        ("GET", "/plants/{}", None),
        ("PATCH", "/plants/{}", {"name": "Mine"}),
        ("POST", "/plants/{}/provision", None),
        ("GET", "/plants/{}/provision/download", None),
        ("POST", "/plants/{}/mqtt-token", None),
        ("GET", "/plants/{}/sub-devices", None),
        ("POST", "/plants/{}/sub-devices", {"externalId": "PV1", "name": "a", "type": "INVERTER"}),
        ("GET", "/plants/{}/sub-devices/PV1", None),
        ("GET", "/plants/{}/refused-messages", None),
        ("GET", "/plants/{}/unregistered-devices", None),
    ):
        foreign = await fleet.call(method, path.format(plant["id"]), body, fleet.stranger)
        assert foreign == await fleet.call(method, path.format(absent), body, fleet.stranger), path
        assert foreign[0] == 404


async def test_a_patch_changes_what_it_names(fleet: Fleet) -> None:
    plant = await fleet.plant()
    path = f"/plants/{plant['id']}"
    _, templates = await fleet.call("GET", "/device-templates?level=PLANT")

    status, same = await fleet.call("PATCH", path, {})
    assert (status, same) == (200, plant)
    status, changed = await fleet.call(
        "PATCH", path, {"name": "Barn", "templateId": templates[0]["id"], "externalPlantId": "esm-1", "authMethod": "PASSWORD"}
    )
    assert status == 200
    assert (changed["name"], changed["template"], changed["externalPlantId"]) == ("Barn", templates[0], "esm-1")
    status, changed = await fleet.call("PATCH", path, {"templateId": None, "externalPlantId": None})
    assert (changed["template"], changed["templateId"], changed["externalPlantId"], changed["name"]) == (
        None,
        None,
        None,
        "Barn",
    )


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": None}, 400, "BAD_REQUEST"),
        ({"templateId": str(uuid4())}, 404, "DEVICE_TEMPLATE_NOT_FOUND"),
        ({"templateId": "00000000-0000-7000-8000-000000000002"}, 400, "DEVICE_TEMPLATE_WRONG_LEVEL"),
        ({"serialNumber": "OTHER"}, 409, "PLANT_ALREADY_EXISTS"),
        ({"externalPlantId": "taken"}, 400, "BAD_REQUEST"),
        ({"organizationId": str(uuid4())}, 403, "FORBIDDEN"),
    ],
)
async def test_a_patch_is_refused(fleet: Fleet, body: dict[str, Any], status: int, code: str) -> None:
    plant = await fleet.plant()
    other = await fleet.plant(serialNumber="OTHER")
    await fleet.call("PATCH", f"/plants/{other['id']}", {"externalPlantId": "taken"})

    answer = await fleet.call("PATCH", f"/plants/{plant['id']}", body)

    assert (answer[0], answer[1]["code"]) == (status, code)
    assert (await fleet.call("GET", f"/plants/{plant['id']}"))[1]["updatedAt"] == plant["updatedAt"]


async def test_a_super_admin_moves_a_plant_with_its_devices(fleet: Fleet) -> None:
    plant = await fleet.plant()
    await fleet.call("POST", f"/plants/{plant['id']}/sub-devices", {"externalId": "PV1", "name": "a", "type": "INVERTER"})

    target = fleet.stranger["x-org-id"]
    status, _ = await fleet.call("PATCH", f"/plants/{plant['id']}", {"organizationId": str(uuid4())}, fleet.super_admin)
    assert status == 400
    status, moved = await fleet.call("PATCH", f"/plants/{plant['id']}", {"organizationId": target}, fleet.super_admin)

    assert (status, moved["organizationId"]) == (200, target)
    assert (await fleet.call("GET", f"/plants/{plant['id']}"))[0] == 404
    status, device = await fleet.call("GET", f"/plants/{plant['id']}/sub-devices/PV1", headers=fleet.stranger)
    assert (status, device["organizationId"]) == (200, target)


async def test_provisioning_gives_each_method_what_it_needs_once(fleet: Fleet) -> None:
    for method in ("MTLS", "TOKEN", "PASSWORD"):
        plant = await fleet.plant(serialNumber=method, authMethod=method)
        path = f"/plants/{plant['id']}"
        answer = await fleet.service.client.post(f"/api/v1{path}/provision", headers=fleet.admin)
        package = answer.json()

        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        security = package["security"]
        assert (security["clientCert"] is not None, security["clientKey"] is not None) == (method == "MTLS", method == "MTLS")
        assert (security["password"] is not None) == (method == "PASSWORD")
        assert len(bytes.fromhex(security["hmacSecret"])) == 32
        assert package["mqtt"]["topics"]["commands"] == f"v1/plants/{plant['id']}/commands"
        assert (await fleet.call("POST", f"{path}/provision"))[1]["code"] == "BAD_REQUEST"
        _, now = await fleet.call("GET", path)
        assert (now["lifecycleStatus"], now["activatedAt"] is not None) == ("ACTIVE", True)
        if method == "MTLS":
            certificate = x509.load_pem_x509_certificate(security["clientCert"].encode())
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(security["caCert"].encode()))
            subject = {a.oid: a.value for a in certificate.subject}
            assert subject[NameOID.COMMON_NAME] == plant["id"]
            assert subject[NameOID.SERIAL_NUMBER] == now["certificateSerialNumber"] == f"{certificate.serial_number:x}"
            assert now["certificateExpiresAt"] is not None
        status, token = await fleet.call("POST", f"{path}/mqtt-token")
        assert status == (200 if method == "TOKEN" else 400)
        if method == "TOKEN":
            assert fleet.service.state.plant_tokens.read(token["token"])[0].hex == plant["id"].replace("-", "")


async def test_the_package_can_be_downloaded_once_more(fleet: Fleet) -> None:
    plant = await fleet.plant()
    path = f"/plants/{plant['id']}"
    _, package = await fleet.call("POST", f"{path}/provision")

    answer = await fleet.service.client.get(f"/api/v1{path}/provision/download", headers=fleet.admin)
    assert answer.json() == package
    assert 'filename="SN-1.json"' in answer.headers["content-disposition"]
    assert (await fleet.call("GET", f"{path}/provision/download"))[1]["code"] == "BAD_REQUEST"


async def test_the_package_lists_the_addresses_of_the_broker_in_order(fleet: Fleet, database_url: str, home: Path) -> None:
    _, package = await fleet.active_plant()
    mqtt = package["mqtt"]
    assert (mqtt["broker"], mqtt["addresses"]) == ("localhost", [{"host": "localhost", "port": mqtt["port"]}])

    hosts = {"mqtt_host": "mq1.example.org", "mqtt_further_hosts": "mq2.example.org,192.0.2.3", "mqtts_port": 8884}
    async with fleet_over_http(database_url, home, keys=fleet.service.state.settings.keys, **hosts) as several:
        path, package = await several.active_plant()
        mqtt = package["mqtt"]
        assert (mqtt["broker"], mqtt["port"]) == ("mq1.example.org", 8884)
        assert mqtt["addresses"] == [
            {"host": host, "port": 8884} for host in ("mq1.example.org", "mq2.example.org", "192.0.2.3")
        ]
        assert (await several.call("GET", f"{path}/provision/download"))[1] == package


async def test_a_package_that_an_earlier_version_stored_is_downloaded(fleet: Fleet) -> None:
    path, package = await fleet.active_plant()
    state, plant_id = fleet.service.state, UUID(package["plantId"])
    del package["mqtt"]["addresses"]
    blob = state.keyring.encrypt(json.dumps(package).encode(), table="plant_secret", column="package", row_id=plant_id)
    await fleet.sql("UPDATE plant_secret SET package = %s WHERE plant_id = %s", blob, plant_id)

    _, downloaded = await fleet.call("GET", f"{path}/provision/download")

    assert downloaded["mqtt"].pop("addresses") == []
    assert downloaded == package


async def test_a_kept_package_dies_after_a_quarter_of_an_hour(fleet: Fleet) -> None:
    plant = await fleet.plant()
    await fleet.call("POST", f"/plants/{plant['id']}/provision")
    async with fleet.service.state.database.transaction() as db:
        await db.execute("UPDATE plant_secret SET package_valid_until = now() - interval '1 second'")

    assert (await fleet.call("GET", f"/plants/{plant['id']}/provision/download"))[1]["code"] == "BAD_REQUEST"


async def test_a_download_provisions_a_pending_plant(fleet: Fleet) -> None:
    plant = await fleet.plant()

    status, package = await fleet.call("GET", f"/plants/{plant['id']}/provision/download")

    assert (status, package["plantId"]) == (200, plant["id"])
    assert (await fleet.call("GET", f"/plants/{plant['id']}"))[1]["lifecycleStatus"] == "ACTIVE"
    assert (await fleet.call("GET", f"/plants/{plant['id']}/provision/download"))[0] == 400


async def test_no_secret_lies_in_the_database_in_clear(fleet: Fleet) -> None:
    plant = await fleet.plant(authMethod="PASSWORD")
    _, package = await fleet.call("POST", f"/plants/{plant['id']}/provision")

    async with fleet.service.state.database.transaction() as db:
        row = await (await db.execute("SELECT s.*::text FROM plant_secret s")).fetchone()
        authority = await (await db.execute("SELECT private_key FROM certificate_authority")).fetchone()
    assert row is not None
    assert authority is not None
    text = str(row)
    assert package["security"]["hmacSecret"] not in text
    assert package["security"]["password"] not in text
    assert b"PRIVATE KEY" not in bytes(authority[0])


async def test_sub_devices_are_created_found_and_filtered(fleet: Fleet) -> None:
    plant = await fleet.plant()
    path = f"/plants/{plant['id']}/sub-devices"
    for body in (
        {"externalId": "PV1", "name": "East", "type": "INVERTER", "templateId": "00000000-0000-7000-8000-000000000004"},
        {"externalId": "GRID", "name": "Main 100%_meter", "type": "METER", "serialNumber": "M-7", "metadata": {"a": 1}},
    ):
        assert (await fleet.call("POST", path, body))[0] == 201

    status, device = await fleet.call("GET", f"{path}/GRID", headers=fleet.viewer)
    assert (status, device["name"], device["status"], device["metadata"]) == (200, "Main 100%_meter", "UNKNOWN", {"a": 1})

    async def ids(query: str) -> list[str]:
        return [device["externalId"] for device in (await fleet.call("GET", f"{path}?{query}"))[1]["data"]]

    assert await ids("") == ["GRID", "PV1"]
    assert await ids("type=INVERTER") == ["PV1"]
    assert await ids("status=ONLINE") == []
    assert await ids("search=m-7") == ["GRID"]
    assert await ids("search=0%25_m") == ["GRID"]
    assert await ids("search=%25") == ["GRID"]
    assert await ids("search=east") == ["PV1"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"externalId": "-x", "name": "a", "type": "METER"}, 400, "VALIDATION_ERROR"),
        ({"externalId": "x" * 33, "name": "a", "type": "METER"}, 400, "VALIDATION_ERROR"),
        ({"externalId": "B", "name": "a", "type": "METER", "templateId": str(uuid4())}, 404, "PLANT_NOT_FOUND"),
        (
            {"externalId": "B", "name": "a", "type": "METER", "templateId": "00000000-0000-7000-8000-000000000001"},
            400,
            "VALIDATION_ERROR",
        ),
        (
            {"externalId": "B", "name": "a", "type": "METER", "templateId": "00000000-0000-7000-8000-000000000004"},
            400,
            "VALIDATION_ERROR",
        ),
        ({"externalId": "A", "name": "a", "type": "METER"}, 409, "SUB_DEVICE_EXTERNAL_ID_TAKEN"),
    ],
)
async def test_a_sub_device_is_refused(fleet: Fleet, body: dict[str, Any], status: int, code: str) -> None:
    plant = await fleet.plant()
    path = f"/plants/{plant['id']}/sub-devices"
    await fleet.call("POST", path, {"externalId": "A", "name": "a", "type": "METER"})

    answer = await fleet.call("POST", path, body)

    assert (answer[0], answer[1]["code"]) == (status, code)


async def test_the_answer_says_that_the_template_of_a_new_sub_device_is_unknown(fleet: Fleet) -> None:
    plant = await fleet.plant()
    body = {"externalId": "B", "name": "a", "type": "METER", "templateId": str(uuid4())}

    _, error = await fleet.call("POST", f"/plants/{plant['id']}/sub-devices", body)

    assert error["message"] == "There is no such device template."
    assert error["details"] == ["templateId: there is no such template"]


async def test_templates_are_written_by_super_admins_and_read_by_all(fleet: Fleet) -> None:
    body = {"name": "Meter X", "type": "METER", "signals": SIGNALS, "actions": [{"action": "reset"}]}

    assert (await fleet.call("POST", "/device-templates", body))[1]["code"] == "FORBIDDEN"
    status, template = await fleet.call("POST", "/device-templates", body, fleet.super_admin)
    assert status == 201
    assert (template["signals"], template["actions"], template["version"], template["isSystem"]) == (
        SIGNALS,
        [{"action": "reset"}],
        1,
        False,
    )
    assert (await fleet.call("POST", "/device-templates", body, fleet.super_admin))[1]["code"] == "CONFLICT"
    assert (await fleet.call("POST", "/device-templates", {**body, "version": 2}, fleet.super_admin))[0] == 201
    assert (await fleet.call("GET", f"/device-templates/{template['id']}", headers=fleet.viewer)) == (200, template)
    assert (await fleet.call("GET", f"/device-templates/{uuid4()}"))[1]["code"] == "DEVICE_TEMPLATE_NOT_FOUND"
    assert (await fleet.call("GET", "/device-templates?level=HOUSE"))[1]["code"] == "VALIDATION_ERROR"


async def test_every_complaint_about_signals_is_listed(fleet: Fleet) -> None:
    signals = [{"key": "a", "bit": -1}, {"key": "b.c", "field": "f"}, {"key": "d", "field": "f", "colour": 1, "min": None}]

    status, error = await fleet.call(
        "POST", "/device-templates", {"name": "T", "type": "METER", "signals": signals}, fleet.super_admin
    )

    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert {line.split(":")[0] for line in error["details"]} == {
        "signals.0.bit",
        "signals.1.key",
        "signals.2.colour",
        "signals.2.min",
    }
    assert "signals.0.bit: must be an integer >= 0" in " ".join(error["details"])


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
async def test_every_page_of_plants_in_its_place(fleet: Fleet, limit: int) -> None:
    """Also those behind the middle, which are read from the end."""
    made = [(await fleet.plant(serialNumber=f"S{number}", authMethod="TOKEN"))["id"] for number in range(10)]
    await fleet.plant(serialNumber="other", authMethod="PASSWORD")

    found: list[str] = []
    for page in range(1, -(-10 // limit) + 2):
        _, answer = await fleet.call("GET", f"/plants?authMethod=TOKEN&limit={limit}&page={page}")
        assert answer["meta"] == {"page": page, "limit": limit, "total": 10, "totalPages": -(-10 // limit)}
        found += [plant["id"] for plant in answer["data"]]

    assert found == made[::-1]
    _, beyond = await fleet.call("GET", "/plants?page=1000")
    assert beyond["data"] == []
