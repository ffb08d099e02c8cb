"""SQL of the roles of signals that devices had with their earlier templates."""

from collections.abc import Mapping
from uuid import UUID

from psycopg.types.json import Jsonb

from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection


async def keep(db: Connection, org: OrgScope, plant_id: UUID, external_id: str | None, roles: Mapping[str, str]) -> None:
    """Keep roles by key with the telemetry of a sub-device, or of the plant itself if `external_id` is None.

    Roles of keys that never had a value are left out, so that changes of templates cannot collect roles without end.
    """
    await db.execute(
        "UPDATE telemetry_source s SET roles = coalesce(s.roles, '{}') || k.roles FROM"
        " (SELECT i.id, jsonb_object_agg(r.key, r.value) AS roles FROM telemetry_source i CROSS JOIN jsonb_each(%(roles)s) AS r"
        " WHERE i.plant_id = %(plant)s AND i.organization_id = %(org)s AND i.external_id IS NOT DISTINCT FROM %(device)s"
        " AND EXISTS (SELECT FROM telemetry_latest t JOIN telemetry_layout l ON l.id = t.layout_id"
        " WHERE t.source_id = i.id AND r.key = ANY(l.metrics)) GROUP BY i.id) AS k WHERE s.id = k.id",
        {"plant": plant_id, "org": org.organization_id, "device": external_id, "roles": Jsonb(dict(roles))},
    )
