"""Guard audit events against deletion, and let functions of the owner create and drop partitions.

Revision ID: 0110
"""

from typing import Final

from alembic import op

revision = "0110"
down_revision = "0109"
branch_labels = None
depends_on = None

# A function of the owner must find the owner's tables whatever the caller's session has: temporary tables come last.
_AS_OWNER: Final = "SECURITY DEFINER SET search_path = {schema}, pg_temp"

_AUDIT: Final = """
-- The only way to delete audit events. The running role has no other right to do it, and cannot delete events of the last day.
-- 50,000 at most: the job runs every hour.
CREATE FUNCTION forget_audit_events(kind text, since timestamptz, until timestamptz) RETURNS bigint LANGUAGE plpgsql
{as_owner} AS $$
DECLARE
    deleted bigint;
BEGIN
    PERFORM set_config('gridfleet.audit_retention', 'on', true);
    DELETE FROM audit_event WHERE id = ANY (ARRAY(SELECT id FROM audit_event
        WHERE created_at >= since AND created_at < least(until, now() - interval '23 hours')
        AND (kind IS NULL OR event = kind) ORDER BY created_at LIMIT 50000));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    PERFORM set_config('gridfleet.audit_retention', 'off', true);
    RETURN deleted;
END $$;

-- Other statements delete nothing. They do not fail in this release: a jobs process of the previous one deletes old events
-- itself, and goes on.
CREATE FUNCTION keep_audit_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('gridfleet.audit_retention', true), '') = 'on' THEN
        RETURN OLD;
    END IF;
    IF TG_LEVEL = 'STATEMENT' THEN
        RAISE WARNING 'rows of % are deleted by forget_audit_events only; none is deleted here', TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_event_delete_warned BEFORE DELETE ON audit_event FOR EACH STATEMENT EXECUTE FUNCTION keep_audit_event();
CREATE TRIGGER audit_event_kept BEFORE DELETE ON audit_event FOR EACH ROW EXECUTE FUNCTION keep_audit_event();
CREATE TRIGGER audit_event_not_truncated BEFORE TRUNCATE ON audit_event FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
"""

_PARTITIONS: Final = """
-- Create the partition of the day (of the month: roll-ups of 15 minutes) that begins with `first`. It is created as a separate
-- table and then attached, which takes a lighter lock than creating it in place: writers of other days continue.
CREATE FUNCTION create_telemetry_partition(parent text, first date) RETURNS void LANGUAGE plpgsql {as_owner} AS $$
DECLARE
    name text := parent || to_char(first, '_YYYYMMDD');
    until date := first + CASE parent WHEN 'telemetry_quarter' THEN interval '1 month' ELSE interval '1 day' END;
BEGIN
    IF parent NOT IN ('telemetry_frame', 'telemetry_minute', 'telemetry_quarter')
        OR parent = 'telemetry_quarter' AND extract(day FROM first) <> 1 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('no partition of %s begins with %s', parent, first);
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(parent || ' partitions', 0));
    IF to_regclass(name) IS NOT NULL OR (SELECT relkind <> 'p' FROM pg_class WHERE oid = parent::regclass) THEN
        RETURN;  -- it exists, or an extension partitions the table
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', name, parent);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, name,
        to_char(first, 'YYYY-MM-DD"T00:00:00Z"'), to_char(until, 'YYYY-MM-DD"T00:00:00Z"'));
END $$;

CREATE FUNCTION drop_telemetry_partition(name text) RETURNS void LANGUAGE plpgsql {as_owner} AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(quote_ident(name)) AND inhparent IN
        ('telemetry_frame'::regclass, 'telemetry_minute'::regclass, 'telemetry_quarter'::regclass)) THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s is no partition of telemetry', name);
    END IF;
    EXECUTE format('DROP TABLE %I', name);
END $$;
"""

_FUNCTIONS: Final = (
    "forget_audit_events(text, timestamptz, timestamptz)",
    "create_telemetry_partition(text, date)",
    "drop_telemetry_partition(text)",
)


def upgrade() -> None:
    """Create functions and triggers. `gridfleet db grant` lets a running role execute the functions."""
    cursor = op.get_bind().connection.cursor()
    [schema] = cursor.execute("SELECT quote_ident(current_schema())").fetchone()
    for statements in (_AUDIT, _PARTITIONS):
        cursor.execute(statements.replace("{as_owner}", _AS_OWNER.format(schema=schema)))
    for function in _FUNCTIONS:
        cursor.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
