"""`/api/v1/plants/certificate-stats`."""

from gridfleet.api.http import S, endpoint, org_member
from gridfleet.domains.plants.certificates.models import CertificateStatistics
from gridfleet.domains.plants.certificates.statistics import certificate_statistics
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection


@endpoint(
    "GET", "/api/v1/plants/certificate-stats", caller=org_member(OrgRole.VIEWER, scope="plants:read"), codes=S, kept_seconds=10
)
async def get_certificate_statistics(org: OrgScope, db: Connection) -> CertificateStatistics:
    """Count client certificates that are valid, expired, about to expire or revoked, and list the most urgent plants.

    The response may be 10 s old.
    """
    return await certificate_statistics(db, org)
