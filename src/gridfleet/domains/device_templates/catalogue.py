"""The catalogue of templates: look up, list, create, seed."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from gridfleet.domains.device_templates import store
from gridfleet.domains.device_templates.errors import TemplateExists, TemplateNotFound
from gridfleet.domains.device_templates.models import Action, DeviceTemplate, DeviceType, Signal, TemplateLevel
from gridfleet.domains.device_templates.system_templates import SYSTEM_TEMPLATES
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id

__all__ = ["create_template", "get_template", "list_templates", "seed_system_templates", "templates_by_id"]


async def get_template(db: Connection, template_id: UUID) -> DeviceTemplate:
    """One template; raises `TemplateNotFound`."""
    template = await store.find(db, template_id)
    if template is None:
        raise TemplateNotFound
    return template


async def templates_by_id(db: Connection, template_ids: Iterable[UUID]) -> dict[UUID, DeviceTemplate]:
    """Those that exist."""
    wanted = set(template_ids)
    return {template.id: template for template in await store.find_many(db, wanted)} if wanted else {}


async def list_templates(db: Connection, level: TemplateLevel | None) -> list[DeviceTemplate]:
    """Every template, of one level when asked, newest first."""
    return await store.list_all(db, level)


async def create_template(
    db: Connection,
    *,
    name: str,
    type: DeviceType,
    level: TemplateLevel,
    version: int,
    signals: Sequence[Signal],
    actions: Sequence[Action],
) -> DeviceTemplate:
    """A new template of valid signals and actions (see `rules`); raises `TemplateExists`."""
    plain: tuple[list[dict[str, Any]], list[dict[str, Any]]] = msgspec.to_builtins((signals, actions))
    template = await store.insert(db, new_id(), name, type, level, version, plain[0], plain[1])
    if template is None:
        raise TemplateExists
    return template


async def seed_system_templates(db: Connection) -> None:
    """Creates the system templates, or brings them to this release's content."""
    for template in SYSTEM_TEMPLATES:
        await store.seed(db, template)
