"""Trading from nothing to metered energy on one machine, with the sandbox in the ESM's place, over HTTP throughout."""

import httpx
import pytest

from support.clients.fleet_under_test import Fleet, JsonObject

MORNING = {"from": "00:00", "to": "12:00", "pBatMin": 0, "pBatMax": 50, "socMin": 20, "socMax": 90}
EVENING = {"from": "12:00", "to": "24:00", "pBatMin": -50, "pBatMax": 0, "socMin": 20, "socMax": 90}


def refused(fleet: Fleet, method: str, path: str, body: object = None) -> str:
    """The code of a call that must fail."""
    with pytest.raises(httpx.HTTPStatusError) as caught:
        fleet.call(method, path, body)
    return str(caught.value.response.json()["code"])


def test_an_organisation_trades_with_the_sandbox(fleet: Fleet) -> None:
    organization = fleet.call("GET", "/trading/config")["organizationId"]
    assert refused(fleet, "POST", "/trading/plants/sync") == "ESM_NOT_CONFIGURED"
    assert refused(fleet, "POST", "/trading/config/enable") == "TRADING_CONFIG_INCOMPLETE"

    # The sandbox is switched on, and named as the organisation's ESM.
    sandbox = fleet.call("POST", f"/svc-esm/admin/enable?orgId={organization}")
    settings = {
        "esmApiUrl": sandbox["esmApiUrl"],
        "esmClientId": sandbox["clientId"],
        "esmClientSecret": sandbox["clientSecret"],
    }
    config = fleet.call("POST", "/trading/config", settings)
    assert (config["hasEsmCredentials"], config["status"]) == (True, "DISABLED")
    config = fleet.call("POST", "/trading/config/enable")
    assert config["status"] == "ENABLED"
    details = fleet.call("GET", "/trading/connection-details")
    assert f"{details['queuePrefix']}.inbound" in {queue["name"] for queue in details["queues"]}

    # Two plants at the ESM, one of them linked to one of ours.
    def at_esm(name: str, **more: object) -> JsonObject:
        body = {"clientId": sandbox["clientId"], "externalPlantId": name, "name": name, **more}
        made: JsonObject = fleet.call("POST", "/svc-esm/admin/plants", body)
        return made

    esm_plant = at_esm("Süd 1", capacityKwh=200, fvePeakPowerKwp=99.5, description="South hall")
    at_esm("elsewhere")
    plant = fleet.register()
    path = f"/trading/plants/{plant.id}"
    assert refused(fleet, "GET", f"{path}/config") == "BAD_REQUEST"
    fleet.call("PATCH", f"/plants/{plant.id}", {"externalPlantId": "Süd 1"})
    assert fleet.call("POST", "/trading/plants/sync") == {"synced": 1, "errors": 0}
    assert fleet.call("GET", "/trading/config")["lastSyncError"] is None
    detail = fleet.call("GET", f"/plants/{plant.id}")
    assert (detail["capacityKwh"], detail["fvePeakPowerKwp"], detail["description"]) == (200, 99.5, "South hall")
    assert (detail["configEnabled"], detail["plantWithLoad"], detail["esiState"]) == (True, True, "PLC_READY")

    # A plan: tried, refused by its own rules, sent, and refused by a plant that is offline.
    plan = {"timeConfigs": [MORNING, EVENING]}
    tried = fleet.call("POST", f"{path}/config/validate", plan)
    assert (tried["resultCode"], tried["isError"], tried["validateOnly"]) == ("OK", False, True)
    assert fleet.call("GET", f"{path}/config")["timeConfigs"] == []
    assert refused(fleet, "POST", f"{path}/config", {"timeConfigs": [MORNING, MORNING]}) == "BAD_REQUEST"
    sent = fleet.call("POST", f"{path}/config", plan)
    assert (sent["resultCode"], sent["isTerminal"], sent["validateOnly"]) == ("OK", True, False)
    works_by = fleet.call("GET", f"{path}/config")
    assert (works_by["timeConfigs"], works_by["version"]) == (plan["timeConfigs"], sent["configSnapshot"]["version"])
    fleet.call("PATCH", f"/svc-esm/admin/plants/{esm_plant['id']}", {"esiState": "PLC_OFFLINE"})
    offline = fleet.call("POST", f"{path}/config", {"timeConfigs": []})
    assert (offline["resultCode"], offline["isError"], offline["isTerminal"]) == ("PLANT_NOT_READY", True, False)
    assert fleet.call("GET", f"{path}/config")["version"] == works_by["version"]

    # The secret is rotated: what is sent with the old one fails, and is recorded; with the new one all is well again.
    rotated = fleet.call("POST", f"/svc-esm/admin/enable?orgId={organization}")
    assert fleet.call("POST", "/trading/plants/sync") == {"synced": 0, "errors": 1}
    assert "credentials" in fleet.call("GET", "/trading/config")["lastSyncError"]
    unheard = fleet.call("POST", f"{path}/config", plan)
    assert (unheard["resultCode"], unheard["isError"]) == ("ESM_UNAVAILABLE", True)
    fleet.call("POST", "/trading/config", {"esmClientSecret": rotated["clientSecret"]})
    assert fleet.call("POST", "/trading/plants/sync") == {"synced": 1, "errors": 0}
    assert fleet.call("GET", f"/plants/{plant.id}")["esiState"] == "PLC_OFFLINE"

    log = fleet.call("GET", f"{path}/config-log")
    assert log["data"] == [unheard, offline, sent, tried]

    rows = fleet.call("GET", f"{path}/meters?bucketMinutes=15")
    assert len(rows) in (94, 95, 96)
    assert {row["plant_id"] for row in rows} == {plant.id}
    assert min(row["energy"] for row in rows) < 0 < max(row["energy"] for row in rows)

    config = fleet.call("POST", "/trading/config/disable")
    assert (config["status"], config["hasEsmCredentials"]) == ("DISABLED", True)
    assert fleet.call("POST", f"/svc-esm/admin/disable?orgId={organization}")["message"]
    assert fleet.call("POST", "/trading/plants/sync") == {"synced": 0, "errors": 1}
