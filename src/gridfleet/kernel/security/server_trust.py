"""Whose certificates we believe, when the service is the client: PostgreSQL, RabbitMQ, Redis, the mail server.

Every library verifies name and certificate by itself where an address asks for TLS (`amqps`, `https`, `rediss`, `smtps`);
only PostgreSQL's has to be told. What they lack is the deployment's own authority, which travels in the address's query.
"""

import ssl
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

__all__ = ["CA_PARAMETER", "anybody_tls", "client_tls", "with_authority"]

CA_PARAMETER: Final = "cafile"
"""Names the authority's file in the query of `amqps` (aiormq reads it) and `https` addresses."""

_PARAMETERS: Final = {"amqps": CA_PARAMETER, "https": CA_PARAMETER, "rediss": "ssl_ca_certs", "valkeys": "ssl_ca_certs"}
_POSTGRESQL: Final = ("postgresql", "postgres")


def with_authority(url: str, authority: Path) -> str:
    """`url` with the file that its server's certificate must stand below; what says so already, or is no TLS, is left alone."""
    parts = urlsplit(url)
    added = _added(parts.scheme, dict(parse_qsl(parts.query)), parts.hostname, str(authority))
    if not added:
        return url
    return f"{url}{'&' if parts.query else '?'}{urlencode(added)}"


def client_tls(authority: str | Path | None) -> ssl.SSLContext:
    """TLS 1.2 or newer that verifies certificate and name, below `authority` (PEM) or the system's authorities."""
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def anybody_tls() -> ssl.SSLContext:
    """TLS that verifies nothing: for questions to our own ports about other things than who answers."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _added(scheme: str, given: dict[str, str], host: str | None, authority: str) -> dict[str, str]:
    if scheme in _POSTGRESQL:
        # A socket has no name to verify, and libpq's own default takes any certificate, and none.
        over_socket = not host and given.get("host", "/").startswith("/")
        return {} if over_socket or "sslmode" in given else {"sslmode": "verify-full", "sslrootcert": authority}
    parameter = _PARAMETERS.get(scheme)
    return {} if parameter is None or parameter in given else {parameter: authority}
