"""The TLS files of the private broker node below `home/ca`, renewed when needed."""

from datetime import timedelta
from pathlib import Path

from cryptography import x509

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.private_files import ensure_private_folder, write_private
from gridfleet.kernel.security.certificates import Authority

__all__ = ["write_server_certificate"]

_RENEW_BEFORE = timedelta(days=30)


def write_server_certificate(folder: Path, authority: Authority, hosts: list[str]) -> None:
    """Write `ca.pem`, `server.pem` and `server.key`. A valid server certificate is kept.

    It is replaced if another authority issued it, its hosts differ, it expires within 30 days, or it is not valid yet because
    the clock was ahead when it was issued.
    """
    ensure_private_folder(folder)
    names = list(dict.fromkeys(hosts))
    if not _fits(folder, authority, names):
        issued = authority.issue_server(names)
        write_private(folder / "server.key", issued.key_pem)
        write_private(folder / "server.pem", issued.certificate_pem + authority.intermediates_pem)
        write_private(folder / "server.hosts", "\n".join(names))
        # Last: after an interruption, the next call finds another authority or no file, and issues again.
        write_private(folder / "ca.pem", authority.certificate_pem)


def _fits(folder: Path, authority: Authority, names: list[str]) -> bool:
    paths = [folder / name for name in ("server.hosts", "server.pem", "server.key", "ca.pem")]
    if not all(path.exists() for path in paths):
        return False
    hosts, certificate, _, issuer = paths
    stored, now = x509.load_pem_x509_certificate(certificate.read_bytes()), utc_now()
    return (
        hosts.read_text().splitlines() == names
        and issuer.read_text() == authority.certificate_pem
        and stored.not_valid_before_utc <= now
        and stored.not_valid_after_utc > now + _RENEW_BEFORE
    )
