"""Drop the foreign key of alerts to their rule: its cascade changed every alert of a deleted rule in one transaction.

Revision ID: 0116
"""

from typing import Final

from alembic import op

revision = "0116"
down_revision = "0112"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE alert DROP CONSTRAINT IF EXISTS alert_rule_id_fkey",
    "COMMENT ON COLUMN alert.rule_id IS"
    " 'The rule, which may be deleted since. NULL: it was deleted before the foreign key was dropped.'",
    # Only the cascade used it. This waits for older transactions, such as a dump, and blocks no other process meanwhile.
    "SET lock_timeout = '10min'",
    "DROP INDEX CONCURRENTLY IF EXISTS alert_rule_of",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Run each step by itself; readers and writers continue meanwhile."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
