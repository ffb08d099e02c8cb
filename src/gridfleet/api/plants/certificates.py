"""`/api/v1/plants/certificate-stats`."""

from gridfleet.api._http import S, endpoint, org_member
from gridfleet.domains.plants.certificates.models import CertificateStatistics
from gridfleet.domains.plants.certificates.statistics import certificate_statistics
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection


@endpoint(
    "GET", "/api/v1/plants/certificate-stats", caller=org_member(OrgRole.VIEWER, scope="plants:read"), codes=S, kept_seconds=10
)
async def certificate_stats(org: OrgScope, db: Connection) -> CertificateStatistics:
    """How many client certificates are valid, expired, about to expire or revoked, and which plants to look after first.

    May be 10 s old.
    """
    return await certificate_statistics(db, org)
