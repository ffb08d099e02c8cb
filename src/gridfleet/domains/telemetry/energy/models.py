"""The record of a day's energy."""

import msgspec

__all__ = ["EnergyOfDay"]


class EnergyOfDay(msgspec.Struct, frozen=True, rename="camel"):
    """Energies in kWh of one UTC day (`YYYY-MM-DD`), and the share of the production that was not exported, in %."""

    date: str
    produced: float
    imported: float
    exported: float
    self_consumption_pct: float
