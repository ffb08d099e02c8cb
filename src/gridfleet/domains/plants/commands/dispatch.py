"""Issue commands to sub-devices."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from psycopg import errors as pg

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.device_templates.catalogue import templates_by_id
from gridfleet.domains.device_templates.models import Action
from gridfleet.domains.device_templates.parameters import find_action, parameter_complaints
from gridfleet.domains.plants.commands import store
from gridfleet.domains.plants.commands.clocks import issue_time
from gridfleet.domains.plants.commands.errors import ActionNotInTemplate
from gridfleet.domains.plants.commands.models import CommandType, NewPlantCommand, Requester
from gridfleet.domains.plants.errors import PlantNotFound, SubDeviceNotFound
from gridfleet.domains.plants.models import Lifecycle
from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.plants.sub_devices.models import SubDevice
from gridfleet.domains.plants.sub_devices.registry import get_sub_device
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now, whole_milliseconds
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import Forbidden, TooManyRequests
from gridfleet.kernel.ids import new_id

__all__ = ["MAX_PARAMS_BYTES", "MAX_WAITING", "MAX_WAITING_BYTES", "issue_device_command"]

MAX_PARAMS_BYTES: Final = 64 * 1024
"""The largest size of a command's parameters as JSON."""

MAX_WAITING: Final = 1_000
"""The most unacknowledged commands of one plant: the plant executes them one by one, and every sender scans all that wait."""

MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of their instructions as JSON. The broker holds up to three copies of each for a plant that is offline."""


async def issue_device_command(
    db: Connection, org: OrgScope, plant_id: UUID, external_id: str, action_name: str, params: Mapping[str, Any]
) -> UUID:
    """Issue a command to a sub-device; it is sent after the commit.

    Returns:
        The id of the command.

    Raises:
        SubDeviceNotFound: There is no such sub-device, or its plant was deleted or moved in the meantime.
        ActionNotInTemplate: The template does not declare the action with these parameters. The details name every error.
        Forbidden: The plant is not ACTIVE.
        TooManyRequests: Too many other commands wait for the plant.
    """
    device = await get_sub_device(db, org, plant_id, external_id)
    action = await _declared(db, device, action_name, params)
    await _require_active(db, org, plant_id)
    if not await store.has_room(db, org, plant_id, MAX_WAITING, MAX_WAITING_BYTES):
        raise TooManyRequests(retry_after=action.timeout_seconds)
    actor = org.actor.as_actor
    now = utc_now()
    # Of the precision of messages, so that plant, list and queue have the same time.
    issued_at = whole_milliseconds(await issue_time(db, plant_id, now))
    command = NewPlantCommand(
        id=new_id(),
        plant_id=plant_id,
        sub_device_id=device.id,
        type=CommandType.DEVICE_COMMAND,
        target=device.external_id,
        instruction={"action": action_name, "params": dict(params)},
        requester=Requester(actor.type, actor.id),
        issued_at=issued_at,
        expires_at=issued_at + timedelta(seconds=action.timeout_seconds),
        due_at=min(issued_at, now),
    )
    try:
        if not await store.insert(db, org, command):
            await _require_active(db, org, plant_id)
            raise SubDeviceNotFound
    except pg.ForeignKeyViolation:  # the sub-device was deleted in the meantime
        raise SubDeviceNotFound from None
    subject = Subject(SubjectType.COMMAND, command.id, plant_id)
    await record_in(db, org, Event.COMMAND_ISSUED, subject, {"externalId": device.external_id, "action": action_name})
    return command.id


async def _require_active(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    try:
        plant = await get_plant(db, org, plant_id)
    except PlantNotFound:  # it was deleted or moved in the meantime
        raise SubDeviceNotFound from None
    if plant.lifecycle_status is not Lifecycle.ACTIVE:
        raise Forbidden(f"The plant is {plant.lifecycle_status}; only an ACTIVE plant accepts commands.")


async def _declared(db: Connection, device: SubDevice, action_name: str, params: Mapping[str, Any]) -> Action:
    if device.template_id is None:
        raise ActionNotInTemplate(details=["action: the sub-device has no template, so it has no actions"])
    template = (await templates_by_id(db, [device.template_id])).get(device.template_id)
    if template is None:  # the sub-device has another one since it was read
        raise ActionNotInTemplate(details=["action: the sub-device's template was deleted in the meantime"])
    action = find_action(template, action_name)
    if action is None:
        known = ", ".join(one["action"] for one in template.actions) or "none"
        raise ActionNotInTemplate(details=[f"action: is not one of the template's ({known})"])
    complaints = list(parameter_complaints(action, params))
    if not complaints and len(msgspec.json.encode(params)) > MAX_PARAMS_BYTES:
        complaints.append(f"params: must have at most {MAX_PARAMS_BYTES} bytes")
    if complaints:
        raise ActionNotInTemplate(details=complaints)
    return action
