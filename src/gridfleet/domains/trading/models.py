"""Records of trading."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

__all__ = ["ConfigChange", "MeterRow", "Synced", "TradingConfig", "TradingStatus"]


class TradingStatus(StrEnum):
    """Whether partners have queues and plants are synced automatically."""

    DISABLED = "DISABLED"
    ENABLED = "ENABLED"


class TradingConfig(msgspec.Struct, frozen=True, rename="camel"):
    """An organisation's connection to its ESM, without the secret."""

    id: UUID
    organization_id: UUID
    esm_api_url: str | None
    esm_client_id: str | None
    has_esm_credentials: bool
    queue_prefix: str
    status: TradingStatus
    last_sync_at: datetime | None
    last_sync_error: str | None
    created_at: datetime
    updated_at: datetime


class ConfigChange(msgspec.Struct, frozen=True, rename="camel"):
    """A plan that was sent to the ESM, with its response. `resultCode` and what follows it are null until there is a response.

    `isTerminal` says that the result is final: sending the same plan again gives the same result.
    """

    id: int
    plant_id: UUID
    request_code: UUID
    result_code: str | None
    message: str | None
    is_error: bool
    is_terminal: bool
    validate_only: bool
    config_snapshot: dict[str, Any]
    requested_by: UUID
    sent_at: datetime
    responded_at: datetime | None
    created_at: datetime


class Synced(msgspec.Struct, frozen=True):
    """Number of updated plants and of errors. `lastSyncError` describes the last error."""

    synced: int
    errors: int


class MeterRow(msgspec.Struct, frozen=True):
    """Energy in kWh of the `interval` minutes from `time` on: positive from the grid, negative into it."""

    time: datetime
    plant_id: UUID
    meter_id: str
    interval: float
    energy: float
