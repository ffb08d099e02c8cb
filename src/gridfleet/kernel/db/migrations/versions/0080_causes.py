"""What set off queued work goes with it, so that logs and traces of both can be joined.

Revision ID: 0080
"""

from alembic import op

revision = "0080"
down_revision = "0071"
branch_labels = None
depends_on = None

# {"request_id": …, "traceparent": …} of the request or message that queued the row; null where nothing is known, as in rows of
# processes of the release before. Jobs have a table beside that of the queue's library.
STEPS = (
    "ALTER TABLE outbox ADD COLUMN IF NOT EXISTS cause jsonb",
    "ALTER TABLE plant_command ADD COLUMN IF NOT EXISTS cause jsonb",
    "ALTER TABLE notification_log ADD COLUMN IF NOT EXISTS cause jsonb",
    "CREATE TABLE IF NOT EXISTS job_cause"
    " (job_id bigint PRIMARY KEY REFERENCES procrastinate_jobs ON DELETE CASCADE, cause jsonb NOT NULL)",
)


def upgrade() -> None:
    """Adds them, each by itself: one must not stay locked while the next is waited for. None of it rewrites a table."""
    with op.get_context().autocommit_block():
        for step in STEPS:
            op.execute(step)
