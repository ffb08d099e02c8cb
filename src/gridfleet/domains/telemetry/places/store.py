"""SQL of sources' owners and layouts' metrics."""

from collections.abc import Sequence

from psycopg.rows import class_row

from gridfleet.domains.telemetry.places.models import LayoutColumns, SourceOwner
from gridfleet.kernel.db import Connection


async def source_owners(db: Connection, source_ids: Sequence[int]) -> list[SourceOwner]:
    """Return the owners of these sources."""
    cursor = db.cursor(row_factory=class_row(SourceOwner))
    await cursor.execute(
        "SELECT id, organization_id, plant_id, external_id FROM telemetry_source WHERE id = ANY(%s)", (source_ids,)
    )
    return await cursor.fetchall()


async def layout_columns(db: Connection, layout_ids: Sequence[int]) -> list[LayoutColumns]:
    """Return the metrics of these layouts."""
    cursor = db.cursor(row_factory=class_row(LayoutColumns))
    await cursor.execute(
        "SELECT id AS layout_id, metrics AS keys, units FROM telemetry_layout WHERE id = ANY(%s)", (layout_ids,)
    )
    return await cursor.fetchall()
