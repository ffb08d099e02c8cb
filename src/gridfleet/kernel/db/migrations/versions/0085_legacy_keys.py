"""Legacy keys are served: one an organisation, as orders in the vhost they share do not say which key sent them.

Revision ID: 0085
"""

from alembic import op

revision = "0085"
down_revision = "0084"
branch_labels = None
depends_on = None

ONE_KEY = (
    "CREATE UNIQUE INDEX partner_key_one_legacy ON partner_key (organization_id) WHERE vhost = '/' AND amqp_slug IS NOT NULL"
)

EVENTS = """
CREATE OR REPLACE FUNCTION is_told_to_partners(organization uuid, plant uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM partner_queues q JOIN partner_key k ON k.organization_id = q.organization_id
        WHERE q.organization_id = organization AND q.enabled AND k.amqp_slug IS NOT NULL AND k.activated_at IS NOT NULL
        AND (k.allowed_plant_ids IS NULL OR plant = ANY(k.allowed_plant_ids)))
$$
"""


def upgrade() -> None:
    """Create the unique index, and queue events for organisations that have a legacy key alone."""
    op.execute(ONE_KEY)
    op.execute(EVENTS)
