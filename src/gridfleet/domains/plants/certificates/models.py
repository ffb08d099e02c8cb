"""Records of an organisation's client certificates."""

from datetime import datetime
from uuid import UUID

import msgspec

from gridfleet.domains.plants.models import AuthMethod, Lifecycle

__all__ = ["AtRiskPlant", "CertificateCounts", "CertificateStatistics"]


class CertificateCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Certificates by state.

    `active` certificates are valid, and `expiring_soon` is the part of them that expires within 30 days. `revoked` are those of
    DECOMMISSIONED plants. `next_renewal_at` is the earliest expiry of the active ones.
    """

    active: int
    expired: int
    expiring_soon: int
    revoked: int
    next_renewal_at: datetime | None


class AtRiskPlant(msgspec.Struct, frozen=True, rename="camel"):
    """A plant whose certificate has expired or expires soon."""

    id: UUID
    name: str
    serial_number: str
    auth_method: AuthMethod
    lifecycle_status: Lifecycle
    certificate_expires_at: datetime


class CertificateStatistics(CertificateCounts, frozen=True, rename="camel"):
    """The counts, and at most 100 plants at risk, the earliest expiry first."""

    at_risk_plants: list[AtRiskPlant]
