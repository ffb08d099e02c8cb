"""Index the payloads of refused partner commands by key and time: their number is limited.

Revision ID: 0164
"""

from typing import Final

from alembic import op

revision = "0164"
down_revision = "0161"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS vcp_command_refused_payloads",
    # Neither `issued_at` nor `payload` changes: an update of an entry writes no index.
    "CREATE INDEX CONCURRENTLY vcp_command_refused_payloads ON vcp_command (api_key_id, created_at)"
    " WHERE issued_at IS NULL AND payload <> '{}'",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
