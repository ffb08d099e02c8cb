"""Roll-ups of telemetry, what is known to be behind them, and how far back each level reaches.

Revision ID: 0030
"""

from alembic import op

revision = "0030"
down_revision = "0011"
branch_labels = None
depends_on = None

TABLES = """
-- One row a source, layout and bucket; an element a place of the layout. `sums` are of the values times 2^-32, so that no
-- sum of finite values overflows; a power of two changes no digit. An element without a value is 0 in counts, else null.
CREATE TABLE telemetry_minute (
    source_id integer NOT NULL,
    layout_id integer NOT NULL,
    bucket timestamptz NOT NULL,
    counts integer[] NOT NULL,
    sums float8[] NOT NULL,
    lows float8[] NOT NULL,
    highs float8[] NOT NULL,
    firsts float8[] NOT NULL,
    lasts float8[] NOT NULL,
    PRIMARY KEY (source_id, bucket, layout_id)
) PARTITION BY RANGE (bucket);
CREATE TABLE telemetry_quarter (
    source_id integer NOT NULL,
    layout_id integer NOT NULL,
    bucket timestamptz NOT NULL,
    counts integer[] NOT NULL,
    sums float8[] NOT NULL,
    lows float8[] NOT NULL,
    highs float8[] NOT NULL,
    firsts float8[] NOT NULL,
    lasts float8[] NOT NULL,
    PRIMARY KEY (source_id, bucket, layout_id)
) PARTITION BY RANGE (bucket);
CREATE TABLE telemetry_hour (
    source_id integer NOT NULL,
    layout_id integer NOT NULL,
    bucket timestamptz NOT NULL,
    counts integer[] NOT NULL,
    sums float8[] NOT NULL,
    lows float8[] NOT NULL,
    highs float8[] NOT NULL,
    firsts float8[] NOT NULL,
    lasts float8[] NOT NULL,
    PRIMARY KEY (source_id, bucket, layout_id)
);
CREATE TABLE telemetry_day (
    source_id integer NOT NULL,
    layout_id integer NOT NULL,
    bucket timestamptz NOT NULL,
    counts integer[] NOT NULL,
    sums float8[] NOT NULL,
    lows float8[] NOT NULL,
    highs float8[] NOT NULL,
    firsts float8[] NOT NULL,
    lasts float8[] NOT NULL,
    PRIMARY KEY (source_id, bucket, layout_id)
);

-- Hours whose roll-ups do not hold all frames yet. Rows are only ever added and deleted whole: one that the job can see
-- comes with frames that it can see, so it may delete exactly the rows it saw. Therefore no unique key.
CREATE TABLE telemetry_dirty (
    source_id integer NOT NULL,
    hour timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX telemetry_dirty_source ON telemetry_dirty (source_id, hour);

-- Hours from here on are open: they are in no roll-up, and nobody writes down that they changed.
CREATE TABLE telemetry_seal (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    sealed_before timestamptz NOT NULL
);
INSERT INTO telemetry_seal (sealed_before) VALUES (date_bin('1 hour', now(), 'epoch'));
INSERT INTO telemetry_dirty (source_id, hour)
    SELECT DISTINCT source_id, date_bin('1 hour', time, 'epoch') FROM telemetry_frame
    WHERE time < date_bin('1 hour', now(), 'epoch');

-- Where the open hours begin. Until the caller's transaction ends they stay open: moving the seal waits for the lock.
-- Each statement of the function sees what was committed before it, so the answer cannot be older than the lock.
CREATE FUNCTION telemetry_open_from() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('telemetry seal', 0));
    RETURN (SELECT sealed_before FROM telemetry_seal);
END $$;

-- What retention has taken away: before these times a source has no frames, no minutes, no quarters.
ALTER TABLE telemetry_source
    ADD COLUMN raw_from timestamptz NOT NULL DEFAULT 'epoch',
    ADD COLUMN minutes_from timestamptz NOT NULL DEFAULT 'epoch',
    ADD COLUMN quarters_from timestamptz NOT NULL DEFAULT 'epoch';

-- An organisation's own retention in days; null: the deployment's.
CREATE TABLE telemetry_retention (
    organization_id uuid PRIMARY KEY REFERENCES organization ON DELETE CASCADE,
    raw_days integer CHECK (raw_days > 0),
    minute_days integer CHECK (minute_days > 0),
    quarter_days integer CHECK (quarter_days > 0)
);
"""


def upgrade() -> None:
    """Makes them."""
    op.execute(TABLES)
