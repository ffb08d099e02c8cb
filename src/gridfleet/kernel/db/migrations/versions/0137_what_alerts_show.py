"""Keep with alerts what their rule said when it raised them, and index them by status and severity.

Revision ID: 0137
"""

from typing import Final

from alembic import op

revision = "0137"
down_revision = "0136"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE alert ADD COLUMN IF NOT EXISTS rule_name text, ADD COLUMN IF NOT EXISTS condition text,"
    " ADD COLUMN IF NOT EXISTS threshold double precision, ADD COLUMN IF NOT EXISTS unit text,"
    " DROP CONSTRAINT IF EXISTS alert_condition_values,"
    " ADD CONSTRAINT alert_condition_values CHECK (condition IN ('LT', 'GT', 'EQ')) NOT VALID",
    "ALTER TABLE alert VALIDATE CONSTRAINT alert_condition_values",
    "COMMENT ON COLUMN alert.rule_name IS 'Name of the rule when it raised the alert. NULL: raised by an earlier release.'",
    "COMMENT ON COLUMN alert.condition IS"
    " 'How the rule compared the value with the threshold. NULL: raised by an earlier release.'",
    "COMMENT ON COLUMN alert.threshold IS"
    " 'Threshold of the rule when it raised the alert. NULL: raised by an earlier release.'",
    "COMMENT ON COLUMN alert.unit IS 'Unit of value and threshold. NULL: unknown, or raised by an earlier release.'",
    # The further steps wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS alert_by_status",
    "CREATE INDEX CONCURRENTLY alert_by_status ON alert (organization_id, status, severity, created_at DESC, id DESC)",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Run each step by itself; readers and writers continue meanwhile."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
