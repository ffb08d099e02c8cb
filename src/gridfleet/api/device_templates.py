"""The catalogue of device templates. Every user can read it; SuperAdmins can write it."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import As, CursorQuery, Input, Message, Pattern, S, endpoint, omitted, org_member, session, super_admin
from gridfleet.domains.device_templates import catalogue
from gridfleet.domains.device_templates.models import (
    FIELD,
    KEY,
    Action,
    ActionParameter,
    DeviceTemplate,
    DeviceType,
    ParameterType,
    Severity,
    Signal,
    SignalKind,
    SignalRole,
    TemplateChanges,
    TemplateLevel,
)
from gridfleet.domains.device_templates.rules import action_complaints, signal_complaints
from gridfleet.domains.plants.template_usage.models import TemplateUsage
from gridfleet.domains.plants.template_usage.queries import template_usage
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Connection

Name = Annotated[str, Field(min_length=1, max_length=120)]


Label = Annotated[str, Field(max_length=120)]
Unit = Annotated[str, Field(max_length=20)]
KeyText = Annotated[str, Pattern(KEY, f"must match {KEY}")]
FieldText = Annotated[str, Pattern(FIELD, f"must match {FIELD}")]


class SignalInput(Input):
    __doc__ = Signal.__doc__

    key: KeyText
    field: FieldText = omitted()
    bit: Annotated[int, Field(ge=0, le=63)] = omitted()
    word: FieldText = omitted()
    label: Label = omitted()
    unit: Unit = omitted()
    scale: float = omitted()
    offset: float = omitted()
    min: float = omitted()
    max: float = omitted()
    kind: SignalKind = omitted()
    role: SignalRole = omitted()
    symbols: dict[str, Label] = omitted()
    severity: Severity = omitted()
    invert: bool = omitted()


class ActionParameterInput(Input):
    __doc__ = ActionParameter.__doc__

    name: KeyText
    type: ParameterType
    unit: Unit = omitted()
    min: float = omitted()
    max: float = omitted()
    max_length: Annotated[int, Field(ge=1, le=10_000)] = omitted()
    enum: Annotated[list[str], Field(min_length=1, max_length=100)] = omitted()
    required: bool = True


class ActionInput(Input):
    __doc__ = Action.__doc__

    action: KeyText
    label: Label = omitted()
    params: Annotated[list[Annotated[ActionParameter, As(ActionParameterInput)]], Field(max_length=50)] = []
    timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 30


Signals = list[Annotated[Signal, As(SignalInput)]]
Actions = list[Annotated[Action, As(ActionInput)]]


class TemplateFilter(Input):
    """Filter of templates."""

    level: TemplateLevel | None = None


class UsageQuery(CursorQuery):
    """Page of the plants that use a template."""

    key: ClassVar[Any] = tuple[UUID]


class NewDeviceTemplate(Input):
    """A template to create."""

    name: Name
    type: DeviceType
    signals: Signals
    actions: Actions = []
    level: TemplateLevel = TemplateLevel.SUB_DEVICE
    version: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each rule across members that a signal or an action violates."""
        yield from signal_complaints(self.signals)
        yield from action_complaints(self.actions)


class DeviceTemplatePatch(Input):
    """Changes to a template. Signals and actions are replaced as a whole."""

    name: Name = omitted()
    signals: Signals = omitted()
    actions: Actions = omitted()

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each rule across members that a signal or an action violates."""
        if "signals" in self.model_fields_set:
            yield from signal_complaints(self.signals)
        if "actions" in self.model_fields_set:
            yield from action_complaints(self.actions)


@endpoint("GET", "/api/v1/device-templates", caller=session(scope="plants:read"), codes=("VALIDATION_ERROR", *S), tagged=True)
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
async def create_device_template(caller: UserCaller, db: Connection, body: NewDeviceTemplate) -> DeviceTemplate:
    """Create a template."""
    return await catalogue.create_template(
        db,
        caller.as_actor,
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
    tagged=True,
)
async def get_device_template(db: Connection, id: UUID) -> DeviceTemplate:
    """Return one template."""
    return await catalogue.get_written(db, id)


@endpoint(
    "GET",
    "/api/v1/device-templates/{templateId}/usage",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("VALIDATION_ERROR", "INVALID_UUID", "DEVICE_TEMPLATE_NOT_FOUND", *S),
    addition=True,
    kept_seconds=5,
)
async def get_device_template_usage(org: OrgScope, db: Connection, template_id: UUID, query: UsageQuery) -> TemplateUsage:
    """Count the plants and sub-devices of the organisation that use a template, and list these plants, newest first.

    The response may be 5 s old.
    """
    return await template_usage(db, org, template_id, query.paging)


@endpoint(
    "PATCH",
    "/api/v1/device-templates/{id}",
    caller=super_admin(code="FORBIDDEN"),
    codes=("VALIDATION_ERROR", "DEVICE_TEMPLATE_SYSTEM_READONLY", "DEVICE_TEMPLATE_NOT_FOUND", *S),
)
async def update_device_template(caller: UserCaller, db: Connection, id: UUID, body: DeviceTemplatePatch) -> DeviceTemplate:
    """Change a template. Omitted members stay as they are.

    Changed signals increase the version, or take the next free version of the name. Stored values stay readable.
    """
    changes = TemplateChanges(body.name, body.signals, body.actions)
    return await catalogue.update_template(db, caller.as_actor, id, changes)


@endpoint(
    "DELETE",
    "/api/v1/device-templates/{id}",
    caller=super_admin(code="FORBIDDEN"),
    codes=("INVALID_UUID", "DEVICE_TEMPLATE_SYSTEM_READONLY", "DEVICE_TEMPLATE_NOT_FOUND", "DEVICE_TEMPLATE_IN_USE", *S),
)
async def delete_device_template(caller: UserCaller, db: Connection, id: UUID) -> Message:
    """Delete a template that no sub-device and no plant uses."""
    await catalogue.delete_template(db, caller.as_actor, id)
    return Message("The template is deleted.")
