"""Index the keys for the broker of each organisation by time, to count those of a day without the keys for REST only.

Revision ID: 0170
"""

from typing import Final

from alembic import op

revision = "0170"
down_revision = "0169"
branch_labels = None
depends_on = None

_SCOPES: Final = (
    "trading:connect,vcp:connect,vcp:write:config,vcp:write:device-command,vcp:write:mode,vcp:write:schedule,vcp:write:setpoint"
)
_STEPS: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS partner_key_newest_at_broker",
    "CREATE INDEX CONCURRENTLY partner_key_newest_at_broker ON partner_key (organization_id, created_at DESC, id DESC)"
    f" WHERE scopes && '{{{_SCOPES}}}'",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
