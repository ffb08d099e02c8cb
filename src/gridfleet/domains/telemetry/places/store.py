"""SQL that tells what stands where."""

from collections.abc import Sequence

from psycopg.rows import class_row

from gridfleet.domains.telemetry.places.models import LayoutKeys, SourcePlace
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection


async def source_places(db: Connection, system: SystemScope, source_ids: Sequence[int]) -> list[SourcePlace]:
    """Whose these sources are."""
    cursor = db.cursor(row_factory=class_row(SourcePlace))
    await cursor.execute(
        "SELECT id, organization_id, plant_id, external_id FROM telemetry_source WHERE id = ANY(%s)", (source_ids,)
    )
    return await cursor.fetchall()


async def layout_keys(db: Connection, system: SystemScope, layout_ids: Sequence[int]) -> list[LayoutKeys]:
    """Which metrics these layouts hold."""
    cursor = db.cursor(row_factory=class_row(LayoutKeys))
    await cursor.execute(
        "SELECT id AS layout_id, metrics AS keys, units FROM telemetry_layout WHERE id = ANY(%s)", (layout_ids,)
    )
    return await cursor.fetchall()
