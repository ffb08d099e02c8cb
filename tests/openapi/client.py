"""Use the generated Python client as a stranger would: log in, list, create, read telemetry, and branch on an error.

Arguments: base URL, e-mail address, password, organisation. Prints the id of the created plant.
"""

import sys
from datetime import UTC, datetime, timedelta

import httpx
from gridfleet_client import AuthenticatedClient, Client
from gridfleet_client.api.auth import login
from gridfleet_client.api.plants import create_plant, list_plants
from gridfleet_client.api.telemetry import get_latest_values, get_telemetry
from gridfleet_client.models import (
    AuthResponse,
    ErrorCode,
    ErrorEnvelope,
    Login,
    NewPlant,
    NewPlantMetadata,
    PlantStatus,
    PlantType,
    PlantView,
    PlantViewPage,
)

_TIMEOUT = httpx.Timeout(60)


def main(base_url: str, email: str, password: str, organization: str) -> None:
    """Run the calls."""
    opened = login.sync(client=Client(base_url, timeout=_TIMEOUT), body=Login(email, password))
    assert isinstance(opened, AuthResponse), opened
    client = AuthenticatedClient(base_url, opened.access_token, timeout=_TIMEOUT)

    page = list_plants.sync(client=client, x_org_id=organization, limit=5)
    assert isinstance(page, PlantViewPage), page
    assert (page.meta.total, page.data) == (0, [])

    metadata = NewPlantMetadata.from_dict({"site": "roof"})
    body = NewPlant("North hall", "SN-1", PlantType.GATEWAY, metadata=metadata)
    plant = create_plant.sync(client=client, body=body, x_org_id=organization)
    assert isinstance(plant, PlantView), plant
    assert (plant.status, plant.template, plant.metadata.to_dict()) == (PlantStatus.UNKNOWN, None, {"site": "roof"})

    now = datetime.now(UTC)
    points = get_telemetry.sync(client=client, plant_id=plant.id, from_=now - timedelta(hours=1), to=now, x_org_id=organization)
    assert points == [], points
    assert get_latest_values.sync(plant.id, client=client, x_org_id=organization) == []

    taken = create_plant.sync(client=client, body=body, x_org_id=organization)
    assert isinstance(taken, ErrorEnvelope), taken
    assert taken.code is ErrorCode.PLANT_ALREADY_EXISTS
    wrong = create_plant.sync(client=client, body=NewPlant("", "", PlantType.GATEWAY), x_org_id=organization)
    assert isinstance(wrong, ErrorEnvelope), wrong
    assert (wrong.code, len(wrong.details)) == (ErrorCode.VALIDATION_ERROR, 2)
    refused = list_plants.sync(client=AuthenticatedClient(base_url, "wrong", timeout=_TIMEOUT), x_org_id=organization)
    assert isinstance(refused, ErrorEnvelope), refused
    assert refused.code is ErrorCode.UNAUTHORIZED
    print(plant.id)


if __name__ == "__main__":
    main(*sys.argv[1:])
