"""Add time zones of organisations and plants, and places of plants that users set.

Revision ID: 0123
"""

from typing import Final

from alembic import op

revision = "0123"
down_revision = "0122"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE organization ADD COLUMN IF NOT EXISTS time_zone text NOT NULL DEFAULT 'UTC'",
    "COMMENT ON COLUMN organization.time_zone IS 'IANA time zone of its plants that have none of their own.'",
    "ALTER TABLE plant ADD COLUMN IF NOT EXISTS time_zone text, ADD COLUMN IF NOT EXISTS own_latitude double precision,"
    " ADD COLUMN IF NOT EXISTS own_longitude double precision, ADD COLUMN IF NOT EXISTS own_tag text",
    "ALTER TABLE plant DROP CONSTRAINT IF EXISTS plant_own_coordinates",
    "ALTER TABLE plant ADD CONSTRAINT plant_own_coordinates CHECK ((own_latitude IS NULL) = (own_longitude IS NULL)) NOT VALID",
    "ALTER TABLE plant VALIDATE CONSTRAINT plant_own_coordinates",
    "COMMENT ON COLUMN plant.time_zone IS 'IANA time zone. NULL: that of the organisation.'",
    "COMMENT ON COLUMN plant.own_latitude IS 'Latitude in degrees that a user set. NULL: the column latitude counts.'",
    "COMMENT ON COLUMN plant.own_longitude IS 'Longitude in degrees that a user set. NULL: the column longitude counts.'",
    "COMMENT ON COLUMN plant.own_tag IS 'Tag that a user set. NULL: the column tag counts.'",
)


def upgrade() -> None:
    """Add the columns."""
    for step in _STEPS:
        op.execute(step)
