"""A server's certificate and key in files, with the authority that issued them."""

from dataclasses import dataclass
from pathlib import Path

from gridfleet.kernel.security.certificates import Authority


@dataclass(frozen=True)
class TlsFiles:
    """Paths for a server, and the authority that its clients trust."""

    certificate: Path
    key: Path
    authority: Path


def tls_files(folder: Path, *hosts: str, authority: Authority | None = None) -> TlsFiles:
    """Write files for a server with these host names below `folder`, issued by `authority` or a new one."""
    authority = authority or Authority.create()
    issued = authority.issue_server(list(hosts))
    folder.mkdir(parents=True, exist_ok=True)
    files = TlsFiles(folder / "server.pem", folder / "server.key", folder / "ca.pem")
    files.certificate.write_text(issued.certificate_pem)
    files.key.write_text(issued.key_pem)
    files.key.chmod(0o600)
    files.authority.write_text(authority.certificate_pem)
    return files
