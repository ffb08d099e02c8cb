"""Lists of a large fleet stay fast: plants by method, and certificates by their end, from indexes of their own.

None holds a column that changes when a plant reports, so a report still touches no index.

Revision ID: 0012
"""

from alembic import op

revision = "0012"
down_revision = "0040"
branch_labels = None
depends_on = None

INDEXES = """
CREATE INDEX plant_by_method ON plant (organization_id, auth_method, created_at DESC, id DESC);
CREATE INDEX plant_certificate ON plant (organization_id, certificate_expires_at) WHERE certificate_expires_at IS NOT NULL;
CREATE INDEX plant_decommissioned ON plant (organization_id) WHERE lifecycle_status = 'DECOMMISSIONED';
"""


def upgrade() -> None:
    """Makes them."""
    op.execute(INDEXES)
