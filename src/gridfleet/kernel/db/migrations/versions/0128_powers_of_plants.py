"""Keep the newest power, state of charge and energy of each plant.

Revision ID: 0128
"""

from typing import Final

from alembic import op

revision = "0128"
down_revision = "0127"
branch_labels = None
depends_on = None

_ENERGIES: Final = ("produced", "imported", "exported", "charged", "discharged")
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS plant_power (
    plant_id uuid PRIMARY KEY REFERENCES plant ON DELETE CASCADE,
    measured_at timestamptz,
    pv_kw double precision,
    battery_kw double precision,
    grid_kw double precision,
    load_kw double precision,
    soc double precision,
    soh double precision,
    capacity_kwh double precision,
    energy_day date,
    produced_kwh double precision,
    imported_kwh double precision,
    exported_kwh double precision,
    charged_kwh double precision,
    discharged_kwh double precision,
    energy_state jsonb
) WITH (fillfactor = 50)
"""
_COMMENTS: Final = {
    "plant_id": "plant.id.",
    "measured_at": "Time of the newest of these values. NULL: the plant has none.",
    "pv_kw": "Power that PV produces, in kW. NULL: not known.",
    "battery_kw": "Power that charges the battery, in kW; negative: it discharges. NULL: not known.",
    "grid_kw": "Power from the grid, in kW; negative: into it. NULL: not known.",
    "load_kw": "Power that is consumed, in kW. NULL: not known.",
    "soc": "State of charge in %. NULL: not known.",
    "soh": "State of health in %. NULL: not known.",
    "capacity_kwh": "Usable capacity that the batteries report, in kWh. NULL: not every battery reports it.",
    "energy_day": "UTC day of the energies. NULL: nothing was counted yet.",
    **{f"{name}_kwh": f"Energy {name} on energy_day, in kWh. NULL: nothing was counted yet." for name in _ENERGIES},
    "energy_state": "What the count continues from: last readings of counters and powers. NULL: nothing was counted yet.",
}
_STEPS: Final = (
    _TABLE,
    "COMMENT ON TABLE plant_power IS 'Newest power and energy of a plant, by the roles of its signals. Ingest refreshes it from"
    " telemetry_latest; a job refreshes every row, also those that are missing.'",
    *(f"COMMENT ON COLUMN plant_power.{column} IS '{text}'" for column, text in _COMMENTS.items()),
)


def upgrade() -> None:
    """Create the table, with a row for each plant that has telemetry. A job fills the rows within minutes."""
    for step in _STEPS:
        op.execute(step)
    op.execute(
        "INSERT INTO plant_power (plant_id) SELECT id FROM plant p"
        " WHERE EXISTS (SELECT FROM telemetry_source s WHERE s.plant_id = p.id) ON CONFLICT DO NOTHING"
    )
