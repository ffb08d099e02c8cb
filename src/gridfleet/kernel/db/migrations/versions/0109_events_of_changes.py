"""Publish statuses and alerts to partners in code; triggers do it for processes of the previous release only.

Revision ID: 0109
"""

from alembic import op

revision = "0109"
down_revision = "0108"
branch_labels = None
depends_on = None

# Connections of this release set `gridfleet.generation`. The next release drops the triggers with their functions, and the
# columns `plant.status_reason` and `plant.status_cause`, which only they read.
STEPS = (
    """
    CREATE OR REPLACE FUNCTION has_subscription(organization uuid, plant uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
        SELECT EXISTS (SELECT FROM partner_queues q JOIN partner_key k ON k.organization_id = q.organization_id
            WHERE q.organization_id = organization AND q.enabled AND k.amqp_slug IS NOT NULL AND k.activated_at IS NOT NULL
            AND (k.allowed_plant_ids IS NULL OR plant = ANY(k.allowed_plant_ids)))
    $$
    """,
    # Both triggers write an event only if this is true.
    """
    CREATE OR REPLACE FUNCTION is_told_to_partners(organization uuid, plant uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
        SELECT coalesce(current_setting('gridfleet.generation', true), '') = '' AND has_subscription(organization, plant)
    $$
    """,
    "COMMENT ON FUNCTION has_subscription IS"
    " 'Whether a partner receives events of the plant: enabled queues and a live key that may see it'",
)


def upgrade() -> None:
    """Replace functions only, so no table is locked."""
    for step in STEPS:
        op.execute(step)
