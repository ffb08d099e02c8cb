"""The tables of telemetry that grow with time, as an extension partitions them."""

from typing import Final

from gridfleet.kernel.db.scale_out import Hypertable

__all__ = ["HYPERTABLES"]

HYPERTABLES: Final = (
    Hypertable("telemetry_frame", time="time", series="source_id", days=1),
    Hypertable("telemetry_minute", time="bucket", series="source_id", days=1),
    Hypertable("telemetry_quarter", time="bucket", series="source_id", days=30),
)
