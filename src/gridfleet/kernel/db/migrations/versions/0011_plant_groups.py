"""Plant groups, and telemetry that outlives its plant until it is erased.

A plant is deleted at once, its telemetry piece by piece afterwards: the foreign key from sources to plants would have
removed the sources with the plant and left their frames behind for ever.

Revision ID: 0011
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE plant_group (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization ON DELETE CASCADE,
    name text NOT NULL,
    description text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX plant_group_newest ON plant_group (organization_id, created_at DESC, id DESC);

CREATE TABLE plant_group_member (
    plant_group_id uuid NOT NULL REFERENCES plant_group ON DELETE CASCADE,
    plant_id uuid NOT NULL REFERENCES plant ON DELETE CASCADE,
    PRIMARY KEY (plant_group_id, plant_id)
);
CREATE INDEX plant_group_member_plant ON plant_group_member (plant_id);

ALTER TABLE telemetry_source DROP CONSTRAINT telemetry_source_plant_id_fkey;
"""


def upgrade() -> None:
    """Creates the tables and frees the sources."""
    op.execute(TABLES)
