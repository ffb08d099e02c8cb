"""Let a plant request its MQTT tokens by itself, once with each signature.

Revision ID: 0121
"""

from typing import Final

from alembic import op

revision = "0121"
down_revision = "0120"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE plant_secret ADD COLUMN IF NOT EXISTS token_requested_at bigint",
    "COMMENT ON COLUMN plant_secret.token_requested_at IS"
    " 'sentAt of the newest accepted request of the plant for an MQTT token, in epoch milliseconds. NULL: none"
    " yet. A request that is not newer is refused.'",
    "COMMENT ON COLUMN audit_event.actor_type IS 'USER, API_KEY, PLANT, SYSTEM or ANONYMOUS.'",
)
_ACTORS: Final = "'USER', 'API_KEY', 'PLANT', 'SYSTEM', 'ANONYMOUS'"
_CHECKS: Final = (
    ("audit_event", "actor_type", _ACTORS),
    ("plant_command", "requester_type", _ACTORS),
)


def upgrade() -> None:
    """Add the column, and the plant as an actor. Each step commits by itself; a repetition replaces what exists."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
        for table, column, values in _CHECKS:
            name = f"{table}_{column}_values"
            op.execute(
                f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name},"
                f" ADD CONSTRAINT {name} CHECK ({column} IN ({values})) NOT VALID"
            )
            op.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")
