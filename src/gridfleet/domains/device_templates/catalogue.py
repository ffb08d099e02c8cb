"""Find, list, create, change and delete templates; insert the system templates."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec
from psycopg import errors as pg

from gridfleet.domains.audit.differences import differences
from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.device_templates import store
from gridfleet.domains.device_templates.errors import TemplateExists, TemplateInUse, TemplateIsSystem, TemplateNotFound
from gridfleet.domains.device_templates.models import (
    Action,
    DeviceTemplate,
    DeviceType,
    Signal,
    TemplateChanges,
    TemplateLevel,
)
from gridfleet.domains.device_templates.system_templates import SYSTEM_TEMPLATES
from gridfleet.kernel.caller import Actor
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import given
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id

__all__ = [
    "create_template",
    "delete_template",
    "get_template",
    "get_written",
    "list_templates",
    "seed_system_templates",
    "templates_by_id",
    "update_template",
    "written_by_id",
]


async def get_template(db: Connection, template_id: UUID) -> DeviceTemplate:
    """Return one template.

    Raises:
        TemplateNotFound: There is no such template.
    """
    template = await store.find(db, template_id)
    if template is None:
        raise TemplateNotFound
    return template


async def templates_by_id(db: Connection, template_ids: Iterable[UUID]) -> dict[UUID, DeviceTemplate]:
    """Return the templates that exist, by id."""
    wanted = set(template_ids)
    return {template.id: template for template in await store.find_many(db, wanted)} if wanted else {}


async def get_written(db: Connection, template_id: UUID) -> DeviceTemplate:
    """Return one template for a response, as `written_by_id` does.

    Raises:
        TemplateNotFound: There is no such template.
    """
    found = await store.find_written(db, [template_id])
    if not found:
        raise TemplateNotFound
    return found[0]


async def written_by_id(db: Connection, template_ids: Iterable[UUID]) -> dict[UUID, DeviceTemplate]:
    """Return the templates that exist, by id, for a response: their signals and actions are JSON, which becomes part of it.

    A template may have 2,000 signals. To decode and encode those of a list again takes a second, in which all other requests
    wait.
    """
    wanted = set(template_ids)
    return {template.id: template for template in await store.find_written(db, wanted)} if wanted else {}


async def list_templates(db: Connection, level: TemplateLevel | None) -> list[DeviceTemplate]:
    """Return every template, or those of one level, newest first, for a response, as `written_by_id` does."""
    return await store.list_all(db, level)


async def create_template(
    db: Connection,
    actor: Actor,
    *,
    name: str,
    type: DeviceType,
    level: TemplateLevel,
    version: int,
    signals: Sequence[Signal],
    actions: Sequence[Action],
) -> DeviceTemplate:
    """Create a template with valid signals and actions (see `rules`).

    Raises:
        TemplateExists: The name and version are taken.
    """
    plain: tuple[list[dict[str, Any]], list[dict[str, Any]]] = msgspec.to_builtins((signals, actions))
    await store.hold_name(db, name)
    template = await store.insert(db, new_id(), name, type, level, version, plain[0], plain[1])
    if template is None:
        raise TemplateExists
    await record(db, Event.DEVICE_TEMPLATE_CREATED, actor, _subject(template.id), details={"name": name, "version": version})
    return template


async def update_template(db: Connection, actor: Actor, template_id: UUID, changes: TemplateChanges) -> DeviceTemplate:
    """Change a template and return it.

    Changed signals raise its version. If the (name, version) is taken, the next free version is used. Frames that are already
    stored keep their layout.

    Raises:
        TemplateNotFound: There is no such template.
        TemplateIsSystem: System templates are read-only.
        ValidationFailed: No version is left.
    """
    template = await _require_changeable(db, template_id)
    # Converted: JSON of the database has a huge limit as a whole number, which is not equal to the float.
    stored = msgspec.convert(template, TemplateChanges, from_attributes=True)
    columns: dict[str, Any] = msgspec.to_builtins(
        {name: value for name, value in given(changes).items() if value != getattr(stored, name)}
    )
    if not columns:
        return template
    if "signals" in columns or "name" in columns:
        name = columns.get("name", template.name)
        await store.hold_name(db, name)
        version = await store.free_version(db, template_id, name, template.version + ("signals" in columns))
        if version is None:
            raise ValidationFailed(details=["signals: no version is left for this name"])
        columns["version"] = version
    updated = await store.update(db, template_id, columns)
    details = differences(template, updated, columns)
    await record(db, Event.DEVICE_TEMPLATE_CHANGED, actor, _subject(template_id), details=details)
    return updated


async def delete_template(db: Connection, actor: Actor, template_id: UUID) -> None:
    """Delete a template.

    Raises:
        TemplateNotFound: There is no such template.
        TemplateIsSystem: System templates are read-only.
        TemplateInUse: Sub-devices or plants use it.
    """
    template = await _require_changeable(db, template_id)
    try:
        await store.delete(db, template_id)
    except pg.ForeignKeyViolation:
        raise TemplateInUse from None
    details = {"name": template.name, "version": template.version}
    await record(db, Event.DEVICE_TEMPLATE_DELETED, actor, _subject(template_id), details=details)


def _subject(template_id: UUID) -> Subject:
    return Subject(SubjectType.DEVICE_TEMPLATE, template_id)


async def _require_changeable(db: Connection, template_id: UUID) -> DeviceTemplate:
    template = await store.lock(db, template_id)
    if template is None:
        raise TemplateNotFound
    if template.is_system:
        raise TemplateIsSystem
    return template


async def seed_system_templates(db: Connection) -> None:
    """Create the system templates, or update them to this release's content.

    SuperAdmins may have given the same name to templates of their own.
    """
    for template in SYSTEM_TEMPLATES:
        await store.hold_name(db, template.name)
        await store.seed(db, template)
