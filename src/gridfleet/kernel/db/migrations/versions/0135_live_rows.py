"""Publish each change of what the rows of a fleet's list show: power, which follows the values, and template; and moved alerts.

Revision ID: 0135
"""

from typing import Final

from alembic import op

revision = "0135"
down_revision = "0130"
branch_labels = None
depends_on = None


def _distinct(*columns: str) -> str:
    old, new = (", ".join(f"{row}.{column}" for column in columns) for row in ("OLD", "NEW"))
    return f"WHEN (({old}) IS DISTINCT FROM ({new}))"


_PLANT: Final = _distinct("name", "serial_number", "status", "lifecycle_status", "organization_id", "template_id")
_ENERGIES: Final = [f"{energy}_kwh" for energy in ("produced", "imported", "exported", "charged", "discharged")]
_POWER: Final = _distinct("measured_at", "pv_kw", "battery_kw", "grid_kw", "load_kw", "soc", "energy_day", *_ENERGIES)
_STEPS: Final = (
    # Every message of a plant may update its row: the trigger runs only if a column that users see has changed.
    f"CREATE OR REPLACE TRIGGER live_plant_changed AFTER UPDATE ON plant FOR EACH ROW {_PLANT}"
    " EXECUTE FUNCTION notify_live_plant()",
    """
CREATE OR REPLACE FUNCTION notify_live_power() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('live_changed', 'values:' || organization_id || ':' || NEW.plant_id) FROM plant WHERE id = NEW.plant_id;
    RETURN NULL;
END $$
""",
    "CREATE OR REPLACE TRIGGER live_power AFTER INSERT ON plant_power FOR EACH ROW EXECUTE FUNCTION notify_live_power()",
    f"CREATE OR REPLACE TRIGGER live_power_changed AFTER UPDATE ON plant_power FOR EACH ROW {_POWER}"
    " EXECUTE FUNCTION notify_live_power()",
    # The organisation of a plant that moves gets its alerts, too.
    "CREATE OR REPLACE TRIGGER live_alert AFTER INSERT OR UPDATE OF status, organization_id ON alert FOR EACH ROW"
    " EXECUTE FUNCTION notify_live_alert()",
)


def upgrade() -> None:
    """Create the triggers. Each step commits by itself, so that only one table is locked at a time."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            # The driver executes the text unchanged: Alembic would take the colons in it for parameters.
            op.get_bind().exec_driver_sql(step)
