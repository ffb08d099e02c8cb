"""Delete set-aside hours with their source, and index the foreign keys of API keys and of the command log.

Revision ID: 0108
"""

from typing import Final

from alembic import op

revision = "0108"
down_revision = "0107"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "DELETE FROM telemetry_set_aside a WHERE NOT EXISTS (SELECT FROM telemetry_source s WHERE s.id = a.source_id)",
    "ALTER TABLE telemetry_set_aside DROP CONSTRAINT IF EXISTS telemetry_set_aside_source_fkey,"
    " ADD CONSTRAINT telemetry_set_aside_source_fkey FOREIGN KEY (source_id) REFERENCES telemetry_source ON DELETE CASCADE"
    " NOT VALID",
    "ALTER TABLE telemetry_set_aside VALIDATE CONSTRAINT telemetry_set_aside_source_fkey",
    "COMMENT ON COLUMN telemetry_set_aside.source_id IS 'The source.'",
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS vcp_command_organization",
    "CREATE INDEX CONCURRENTLY vcp_command_organization ON vcp_command (organization_id)",
    "DROP INDEX CONCURRENTLY IF EXISTS partner_key_creator",
    "CREATE INDEX CONCURRENTLY partner_key_creator ON partner_key (created_by)",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Run each step by itself; readers and writers continue meanwhile."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
