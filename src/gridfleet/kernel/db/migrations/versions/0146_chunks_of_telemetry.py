"""Let retention drop the chunks of a table of telemetry that TimescaleDB partitions.

Revision ID: 0146
"""

from typing import Final

from alembic import op

revision = "0146"
down_revision = "0145"
branch_labels = None
depends_on = None

_FUNCTION: Final = """
-- Drop the chunks of a table of telemetry that end at `until` or before, and return their number. A table with partitions of
-- its own has no chunks. The running role does not own the table, and only its owner may drop chunks.
CREATE OR REPLACE FUNCTION drop_telemetry_chunks(parent text, until timestamptz) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    dropped bigint;
BEGIN
    IF parent NOT IN ('telemetry_frame', 'telemetry_minute', 'telemetry_quarter') THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s is no table of telemetry', parent);
    END IF;
    IF (SELECT relkind = 'p' FROM pg_class WHERE oid = parent::regclass) THEN
        RETURN 0;
    END IF;
    EXECUTE format('SELECT count(*) FROM %s.drop_chunks(%L::regclass, older_than => $1)',
        (SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'timescaledb'), parent)
        INTO dropped USING until;
    RETURN dropped;
END $$;
"""


def upgrade() -> None:
    """Create the function. `gridfleet db grant` lets a running role execute it."""
    cursor = op.get_bind().connection.cursor()
    [schema] = cursor.execute("SELECT quote_ident(current_schema())").fetchone()
    cursor.execute(_FUNCTION.replace("{schema}", schema))
    cursor.execute("REVOKE EXECUTE ON FUNCTION drop_telemetry_chunks(text, timestamptz) FROM PUBLIC")
