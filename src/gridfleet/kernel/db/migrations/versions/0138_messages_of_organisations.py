"""Keep with refused messages and unregistered devices the organisation of their plant, and index them by it.

Revision ID: 0138
"""

from typing import Final

from alembic import op

revision = "0138"
down_revision = "0137"
branch_labels = None
depends_on = None

_BEFORE: Final = (
    "ALTER TABLE refused_message ADD COLUMN IF NOT EXISTS organization_id uuid",
    "ALTER TABLE unregistered_device ADD COLUMN IF NOT EXISTS organization_id uuid",
    "COMMENT ON COLUMN refused_message.organization_id IS"
    " 'The organisation of the plant when the message arrived. NULL: not yet migrated.'",
    "COMMENT ON COLUMN unregistered_device.organization_id IS"
    " 'The organisation of the plant when it last named the device. NULL: not yet migrated.'",
    # Processes of the previous release insert rows without it.
    "CREATE OR REPLACE FUNCTION set_organization_of_plant() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " NEW.organization_id := (SELECT organization_id FROM plant WHERE id = NEW.plant_id); RETURN NEW; END $$",
    "CREATE OR REPLACE TRIGGER refused_message_organization BEFORE INSERT ON refused_message FOR EACH ROW"
    " WHEN (NEW.organization_id IS NULL) EXECUTE FUNCTION set_organization_of_plant()",
    "CREATE OR REPLACE TRIGGER unregistered_device_organization BEFORE INSERT ON unregistered_device FOR EACH ROW"
    " WHEN (NEW.organization_id IS NULL) EXECUTE FUNCTION set_organization_of_plant()",
)
_PLANTS: Final = "SELECT id FROM plant WHERE id > '{after}' ORDER BY id LIMIT 10"
_FILL: Final = (
    # Rows that ingest is writing are skipped, because it locks them in another order. It sets their organisation the next time.
    "UPDATE {table} r SET organization_id = p.organization_id FROM plant p WHERE p.id = r.plant_id AND r.ctid = ANY (ARRAY("
    "SELECT ctid FROM {table} WHERE organization_id IS NULL AND plant_id = ANY ('{plants}') FOR NO KEY UPDATE SKIP LOCKED))"
)
_AFTER: Final = (
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS refused_message_of_organization",
    "CREATE INDEX CONCURRENTLY refused_message_of_organization"
    " ON refused_message (organization_id, reason, received_at DESC, id DESC)",
    "DROP INDEX CONCURRENTLY IF EXISTS unregistered_device_of_organization",
    "CREATE INDEX CONCURRENTLY unregistered_device_of_organization"
    " ON unregistered_device (organization_id, first_seen_at DESC, plant_id DESC, external_id DESC)",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Add the columns, fill them for 10 plants at a time, and create the indexes without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _BEFORE:
            op.execute(step)
        # The further steps wait for older transactions, such as a dump, and block no other process meanwhile.
        op.execute("SET lock_timeout = '10min'")
        connection = op.get_bind()
        after = "00000000-0000-0000-0000-000000000000"
        while plants := [str(row[0]) for row in connection.exec_driver_sql(_PLANTS.format(after=after))]:
            for table in ("refused_message", "unregistered_device"):
                connection.exec_driver_sql(_FILL.format(table=table, plants="{" + ",".join(plants) + "}"))
            after = plants[-1]
        for step in _AFTER:
            op.execute(step)
