"""A plant's data from its ESM."""

from typing import NamedTuple

__all__ = ["EsmFacts"]


class EsmFacts(NamedTuple):
    """A plant as its ESM describes it: capacity in kWh, peak power in kWp, coordinates in degrees. Named like the columns."""

    capacity_kwh: float | None
    fve_peak_power_kwp: float | None
    config_enabled: bool | None
    description: str | None
    esi_state: str | None
    latitude: float | None
    longitude: float | None
    plant_with_load: bool | None
    tag: str | None
