"""Keep with commands the organisation that issued them, and index them by it.

Revision ID: 0136
"""

from typing import Final

from alembic import op

revision = "0136"
down_revision = "0135"
branch_labels = None
depends_on = None

_BEFORE: Final = (
    "ALTER TABLE plant_command ADD COLUMN IF NOT EXISTS organization_id uuid",
    "COMMENT ON COLUMN plant_command.organization_id IS"
    " 'The organisation of the plant when the command was issued. NULL: not yet migrated.'",
    # Processes of the previous release insert commands without it.
    "CREATE OR REPLACE FUNCTION set_plant_command_organization() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " NEW.organization_id := (SELECT organization_id FROM plant WHERE id = NEW.plant_id); RETURN NEW; END $$",
    "CREATE OR REPLACE TRIGGER plant_command_organization BEFORE INSERT ON plant_command FOR EACH ROW"
    " WHEN (NEW.organization_id IS NULL) EXECUTE FUNCTION set_plant_command_organization()",
)
_NEXT: Final = (
    # Locked in the order of their ids, as the processes lock commands.
    "WITH next AS (SELECT id FROM plant_command WHERE id > '{after}' AND organization_id IS NULL ORDER BY id LIMIT 5000"
    " FOR NO KEY UPDATE),"
    " changed AS (UPDATE plant_command c SET organization_id = p.organization_id FROM next, plant p"
    " WHERE c.id = next.id AND p.id = c.plant_id) SELECT id FROM next ORDER BY id DESC LIMIT 1"
)
_AFTER: Final = (
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS plant_command_of_organization",
    "CREATE INDEX CONCURRENTLY plant_command_of_organization"
    " ON plant_command (organization_id, requester_type, status, type, issued_at DESC, id DESC)",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Add the column, fill it 5,000 commands at a time, and create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _BEFORE:
            op.execute(step)
        # The further steps wait for older transactions, such as a dump, and block no other process meanwhile.
        op.execute("SET lock_timeout = '10min'")
        after: str | None = "00000000-0000-0000-0000-000000000000"
        while after is not None:
            after = op.get_bind().exec_driver_sql(_NEXT.format(after=after)).scalar()
        for step in _AFTER:
            op.execute(step)
