"""Record audit events about plants and what belongs to them, and index events by kind, subject, plant and actor.

Revision ID: 0120
"""

from typing import Final

from alembic import op

revision = "0120"
down_revision = "0119"
branch_labels = None
depends_on = None

_SUBJECTS: Final = (
    "'USER', 'SESSION', 'ORGANIZATION', 'MEMBER', 'INVITATION', 'API_KEY', 'PLANT', 'SUB_DEVICE', 'COMMAND', 'PLANT_GROUP',"
    " 'DEVICE_TEMPLATE', 'ALERT', 'ALERT_RULE', 'SANDBOX_PLANT'"
)

_INDEXES: Final = (
    # The organisation follows, so that the events of another one are not read; a subject or actor has few organisations.
    ("audit_event_of_subject", "(subject_id, organization_id, created_at DESC, id DESC) WHERE subject_id IS NOT NULL"),
    ("audit_event_of_plant", "(plant_id, organization_id, created_at DESC, id DESC) WHERE plant_id IS NOT NULL"),
    ("audit_event_of_actor", "(actor_id, organization_id, created_at DESC, id DESC) WHERE actor_id IS NOT NULL"),
    ("audit_event_of_kind", "(event, organization_id, created_at DESC, id DESC)"),
)


def upgrade() -> None:
    """Add the column, replace the CHECK, and create the indexes without blocking writes. A repetition replaces what exists."""
    with op.get_context().autocommit_block():
        op.execute("ALTER TABLE audit_event ADD COLUMN IF NOT EXISTS plant_id uuid")
        op.execute(
            "COMMENT ON COLUMN audit_event.plant_id IS 'Plant that the event is about, itself or by one of its devices,"
            " commands, alerts or rules. NULL: none, all plants, or an event from before this column.'"
        )
        op.execute(
            "ALTER TABLE audit_event DROP CONSTRAINT IF EXISTS audit_event_subject_type_values,"
            f" ADD CONSTRAINT audit_event_subject_type_values CHECK (subject_type IN ({_SUBJECTS})) NOT VALID"
        )
        op.execute("ALTER TABLE audit_event VALIDATE CONSTRAINT audit_event_subject_type_values")
        # Each waits for older transactions, such as a dump, and blocks no other process meanwhile.
        op.execute("SET lock_timeout = '10min'")
        for name, columns in _INDEXES:
            # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            op.execute(f"CREATE INDEX CONCURRENTLY {name} ON audit_event {columns}")
        op.execute("SET lock_timeout = '1s'")
