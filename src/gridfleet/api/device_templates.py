"""The catalogue of device templates. Every user can read it; SuperAdmins can write it."""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gridfleet.api.http import Message, S, endpoint, session, super_admin
from gridfleet.domains.device_templates import catalogue
from gridfleet.domains.device_templates.models import (
    Action,
    DeviceTemplate,
    DeviceType,
    Signal,
    TemplateChanges,
    TemplateLevel,
)
from gridfleet.domains.device_templates.rules import action_complaints, signal_complaints
from gridfleet.kernel.db import Connection

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=120)]


class TemplateFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Filter of templates."""

    level: TemplateLevel | None = None


class NewDeviceTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A template to create."""

    name: Name
    type: DeviceType
    signals: list[Signal]
    actions: list[Action] = []
    level: TemplateLevel = TemplateLevel.SUB_DEVICE
    version: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] = 1

    def complaints(self) -> Iterator[str]:
        """Check the rules across the members of signals and actions."""
        yield from signal_complaints(self.signals)
        yield from action_complaints(self.actions)


class DeviceTemplatePatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a template. Signals and actions are replaced as a whole."""

    name: Name | UnsetType = UNSET
    signals: list[Signal] | UnsetType = UNSET
    actions: list[Action] | UnsetType = UNSET

    def complaints(self) -> Iterator[str]:
        """Check the rules across the members of signals and actions."""
        if self.signals is not UNSET:
            yield from signal_complaints(self.signals)
        if self.actions is not UNSET:
            yield from action_complaints(self.actions)


@endpoint("GET", "/api/v1/device-templates", caller=session(scope="plants:read"), codes=("VALIDATION_ERROR", *S))
async def list_device_templates(db: Connection, query: TemplateFilter) -> list[DeviceTemplate]:
    """List all templates, or those of one level, newest first."""
    return await catalogue.list_templates(db, query.level)


@endpoint(
    "POST",
    "/api/v1/device-templates",
    caller=super_admin(code="FORBIDDEN"),
    codes=("VALIDATION_ERROR", "CONFLICT", *S),
    success=201,
)
async def create_device_template(db: Connection, body: NewDeviceTemplate) -> DeviceTemplate:
    """Create a template."""
    return await catalogue.create_template(
        db,
        name=body.name,
        type=body.type,
        level=body.level,
        version=body.version,
        signals=body.signals,
        actions=body.actions,
    )


@endpoint(
    "GET",
    "/api/v1/device-templates/{id}",
    caller=session(scope="plants:read"),
    codes=("INVALID_UUID", "DEVICE_TEMPLATE_NOT_FOUND", *S),
    bad_path_id="INVALID_UUID",
)
async def get_device_template(db: Connection, id: UUID) -> DeviceTemplate:
    """Return one template."""
    return await catalogue.get_template(db, id)


@endpoint(
    "PATCH",
    "/api/v1/device-templates/{id}",
    caller=super_admin(code="FORBIDDEN"),
    codes=("VALIDATION_ERROR", "DEVICE_TEMPLATE_SYSTEM_READONLY", "DEVICE_TEMPLATE_NOT_FOUND", *S),
    bad_path_id="VALIDATION_ERROR",
)
async def update_device_template(db: Connection, id: UUID, body: DeviceTemplatePatch) -> DeviceTemplate:
    """Change a template. Omitted members stay as they are.

    Changed signals increase the version, or take the next free version of the name. Stored values stay readable.
    """
    return await catalogue.update_template(db, id, TemplateChanges(body.name, body.signals, body.actions))


@endpoint(
    "DELETE",
    "/api/v1/device-templates/{id}",
    caller=super_admin(code="FORBIDDEN"),
    codes=("INVALID_UUID", "DEVICE_TEMPLATE_SYSTEM_READONLY", "DEVICE_TEMPLATE_NOT_FOUND", "DEVICE_TEMPLATE_IN_USE", *S),
    bad_path_id="INVALID_UUID",
)
async def delete_device_template(db: Connection, id: UUID) -> Message:
    """Delete a template that no sub-device and no plant uses."""
    await catalogue.delete_template(db, id)
    return Message("The template is deleted.")
