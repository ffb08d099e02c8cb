"""Statistics about an organisation's client certificates."""

from datetime import timedelta
from typing import Final

import msgspec

from gridfleet.domains.plants.certificates import store
from gridfleet.domains.plants.certificates.models import CertificateStatistics
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["certificate_statistics"]

EXPIRING_SOON: Final = timedelta(days=30)
MOST_AT_RISK: Final = 100


async def certificate_statistics(db: Connection, org: OrgScope) -> CertificateStatistics:
    """Return counts of the organisation's certificates, and the plants whose certificates expire first."""
    counts = await store.count_certificates(db, org, EXPIRING_SOON)
    at_risk = await store.at_risk(db, org, EXPIRING_SOON, MOST_AT_RISK)
    return CertificateStatistics(**msgspec.structs.asdict(counts), at_risk_plants=at_risk)
