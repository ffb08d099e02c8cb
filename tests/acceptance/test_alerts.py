"""From a rule over REST to the people in charge: a plant measures, an alert is raised, push and mail arrive, it is handled."""

import time
from datetime import UTC, datetime
from uuid import uuid4

import httpx

from gridfleet.protocol.envelope import format_time
from support.clients.fleet_under_test import Fleet, JsonObject, wait_for
from support.servers.expo_server import ExpoServer
from support.servers.postbox import delivered, text_of, token_in

PASSWORD = "Correct-horse-battery-9"
TOKEN = "ExponentPushToken[operator-phone]"


def operator_of(fleet: Fleet) -> tuple[str, httpx.Client]:
    """A user who was invited as an OPERATOR: the e-mail, and a client that is logged in."""
    email = f"operator-{uuid4().hex[:8]}@example.com"
    organization = fleet.call("POST", "/invitations", {"email": email, "role": "OPERATOR"})["organizationId"]
    (invitation,) = wait_for(lambda: delivered(fleet.stack.home, email) or None)
    joining = {"name": "Olga Operator", "password": PASSWORD, "token": token_in(invitation)}
    access_token = fleet.call("POST", "/auth/register/invite", joining)["access_token"]
    headers = {"x-org-id": organization, "authorization": f"Bearer {access_token}"}
    return email, httpx.Client(base_url=f"{fleet.stack.base_url}/api/v1", timeout=30, headers=headers)


async def test_an_alert_from_rule_to_resolution(fleet: Fleet, expo: ExpoServer) -> None:
    email, operator = operator_of(fleet)
    operator.post("/notifications/push-tokens", json={"token": TOKEN, "platform": "android"}).raise_for_status()
    plant = fleet.plant(devices=["BAT1"])

    async with await plant.connect() as connection:

        async def measure(soc: float) -> None:
            now = format_time(datetime.now(UTC))
            payload = {"time": now, "devices": [{"id": "BAT1", "fields": {"soc": soc}}]}
            await connection.publish(plant.topic(), plant.signed(payload))

        await measure(80)
        wait_for(lambda: "BAT1.soc" in plant.latest())
        rule = operator.post(
            "/alert-rules",
            json={"name": "Low battery", "metric": "soc", "condition": "LT", "threshold": 10, "severity": "CRITICAL"},
        )
        assert rule.status_code == 201, rule.text
        # Ingest has met the plant before: that it knows of the rule at once is the promise.
        time.sleep(2)
        await measure(7.5)

    (alert,) = wait_for(lambda: operator.get("/alerts").json()["data"] or None)
    assert (alert["status"], alert["severity"], alert["type"]) == ("ACTIVE", "CRITICAL", "THRESHOLD_EXCEEDED")
    name = fleet.call("GET", f"/plants/{plant.id}")["name"]
    assert alert["message"].startswith(f"Low battery: BAT1.soc of {name} is 7.5")
    assert fleet.call("GET", f"/plants/{plant.id}")["alerts"] == [alert]

    (push,) = wait_for(lambda: expo.messages or None)
    assert (push["to"], push["data"]["alertId"], push["priority"]) == (TOKEN, alert["id"], "high")
    _, mail = wait_for(lambda: mails if len(mails := delivered(fleet.stack.home, email)) == 2 else None)
    assert mail["Subject"] == push["title"] == f"CRITICAL: {alert['message']}"
    assert "BAT1.soc" in text_of(mail)

    def settled() -> list[JsonObject]:
        found: list[JsonObject] = fleet.call("GET", "/notifications/logs")["data"]
        return [log for log in found if log["status"] != "PENDING"]

    logs = wait_for(lambda: settled() if len(settled()) == 2 else None)
    assert {(log["channel"], log["status"], log["error"]) for log in logs} == {("PUSH", "SENT", None), ("EMAIL", "SENT", None)}

    acknowledged = operator.patch(f"/alerts/{alert['id']}/acknowledge").json()
    assert (acknowledged["status"], acknowledged["acknowledgedBy"]) == ("ACKNOWLEDGED", logs[0]["userId"])
    assert operator.get("/alerts", params={"status": "ACTIVE"}).json()["data"] == []
    resolved = operator.patch(f"/alerts/{alert['id']}/resolve").json()
    assert (resolved["status"], resolved["acknowledgedAt"]) == ("RESOLVED", acknowledged["acknowledgedAt"])
    assert operator.patch(f"/alerts/{alert['id']}/resolve").json() == resolved
    assert fleet.call("GET", f"/plants/{plant.id}")["alerts"] == []
