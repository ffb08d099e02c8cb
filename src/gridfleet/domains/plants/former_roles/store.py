"""SQL of the roles of signals that devices had with their earlier templates."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from psycopg.types.json import Jsonb

from gridfleet.domains.device_templates.models import DeviceTemplate
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection


async def keep(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    external_id: str | None,
    roles: Mapping[str, str],
    template_id: UUID | None,
    successor: DeviceTemplate | None,
) -> None:
    """Keep roles by key with the telemetry of a sub-device, or of the plant itself if `external_id` is None.

    Roles of signals that edits have removed from its template are kept too. Roles of keys that never had a value are left out,
    so that changes of templates cannot collect roles without end, and so are those of keys that the next template declares.

    Args:
        db: The connection.
        org: The organisation.
        plant_id: The plant.
        external_id: The external id of the sub-device; None for the plant itself.
        roles: The roles with its template until now.
        template_id: That template; None if it had none.
        successor: Its next template; None if it has none, or the device is deleted.
    """
    await db.execute(
        "UPDATE telemetry_source s SET roles = coalesce((SELECT jsonb_object_agg(r.key, r.value) FROM jsonb_each("
        "coalesce((SELECT m.former_roles FROM device_template m WHERE m.id = %(template)s), '{}')"
        " || coalesce(s.roles, '{}') || %(roles)s) AS r WHERE r.key <> ALL (%(declared)s::text[])"
        " AND EXISTS (SELECT FROM telemetry_latest t JOIN telemetry_layout l ON l.id = t.layout_id"
        " WHERE t.source_id = s.id AND r.key = ANY(l.metrics))), '{}')"
        " WHERE s.plant_id = %(plant)s AND s.organization_id = %(org)s AND s.external_id IS NOT DISTINCT FROM %(device)s",
        {
            "plant": plant_id,
            "org": org.organization_id,
            "device": external_id,
            "roles": Jsonb(dict(roles)),
            "template": template_id,
            "declared": [] if successor is None else [signal["key"] for signal in successor.signals],
        },
    )


async def log_energy_after(db: Connection, org: OrgScope, plant_id: UUID, external_id: str | None, keys: Iterable[str]) -> None:
    """Log that the plant's energy is to be computed again in the closed hours after the last value of one of these keys.

    A device that was silent displaced others in these hours. They count when it no longer has the roles of the keys. Hours that
    wait to be computed are not logged again: a script that changes templates must not fill the disk. Those that are being
    computed, with the former roles, are. The others are held until the end of the transaction: they get the new roles.

    Args:
        db: The connection.
        org: The organisation.
        plant_id: The plant.
        external_id: The external id of the sub-device that loses the roles; None for the plant itself.
        keys: The keys.
    """
    await db.execute(
        "INSERT INTO energy_dirty (plant_id, hour) SELECT %(plant)s, later.hour FROM telemetry_seal w,"
        " (SELECT min(k.last) AS last FROM (SELECT greatest(max(t.time), max(s.raw_from)) AS last FROM telemetry_source s"
        " JOIN telemetry_latest t ON t.source_id = s.id JOIN telemetry_layout l ON l.id = t.layout_id"
        " CROSS JOIN LATERAL unnest(l.metrics, t.vals) AS u (key, value) WHERE s.plant_id = %(plant)s"
        " AND s.organization_id = %(org)s AND s.external_id IS NOT DISTINCT FROM %(device)s"
        " AND (s.external_id IS NULL OR s.sub_device_id IS NOT NULL) AND u.key = ANY(%(keys)s) AND u.value IS NOT NULL"
        " GROUP BY u.key) AS k) AS e, generate_series(date_bin('1 hour', e.last, 'epoch') + interval '1 hour',"
        " w.sealed_before - interval '1 hour', interval '1 hour') AS later (hour)"
        " WHERE NOT EXISTS (SELECT FROM energy_dirty d WHERE d.plant_id = %(plant)s AND d.hour = later.hour"
        " FOR KEY SHARE SKIP LOCKED)",
        {"plant": plant_id, "org": org.organization_id, "device": external_id, "keys": list(keys)},
    )
