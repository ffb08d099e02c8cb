"""Trust in servers' certificates when the service is the client: PostgreSQL, RabbitMQ, Redis, the mail server.

Every library verifies name and certificate if an address requires TLS (`amqps`, `https`, `rediss`, `smtps`); only PostgreSQL
needs a parameter for it. The file of the deployment's own authority is added to the address.
"""

import asyncio
import re
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from cryptography import x509

__all__ = ["CA_PARAMETER", "client_tls", "shown_certificate", "unverified_tls", "with_authority"]

CA_PARAMETER: Final = "cafile"
"""Query parameter with the authority's file, in `amqps` (read by aiormq) and `https` addresses."""

_PARAMETERS: Final = {"amqps": CA_PARAMETER, "https": CA_PARAMETER, "rediss": "ssl_ca_certs", "valkeys": "ssl_ca_certs"}
_POSTGRESQL: Final = ("postgresql", "postgres")
_KEYWORDS: Final = re.compile(r"\s*\w+\s*=")
"""The beginning of an address of PostgreSQL that is not a URL."""


def with_authority(url: str, authority: Path) -> str:
    """Return `url` with the file of the authority that the server's certificate is verified against.

    A URL that already has such a parameter, or does not use TLS, is returned unchanged. PostgreSQL's may also have the form
    `host=… dbname=…`.
    """
    if _KEYWORDS.match(url):
        return _with_keywords(url, str(authority))
    parts = urlsplit(url)
    added = _added(parts.scheme, dict(parse_qsl(parts.query)), parts.hostname, str(authority))
    if not added:
        return url
    return f"{url}{'&' if parts.query else '?'}{urlencode(added)}"


def client_tls(authority: str | Path | None) -> ssl.SSLContext:
    """Return a TLS context (1.2 or newer) that verifies certificate and name.

    `authority` is a PEM file. Default: the system's authorities.
    """
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def unverified_tls() -> ssl.SSLContext:
    """Return a TLS context that verifies nothing, for requests to own ports that do not depend on the server's identity."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def shown_certificate(host: str, port: int, seconds: float) -> x509.Certificate:
    """Return the certificate that a server shows to its clients, whether or not they would trust it.

    Raises:
        OSError, TimeoutError: There is no server, no TLS, no certificate, or no response within `seconds`.
    """
    async with asyncio.timeout(seconds):
        _, writer = await asyncio.open_connection(host, port, ssl=unverified_tls())
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    if shown is None:
        raise OSError("the server shows no certificate")
    return x509.load_der_x509_certificate(shown)


def _with_keywords(text: str, authority: str) -> str:
    # Imported here, because few processes have such an address, and the library takes time to load.
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        given = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except ProgrammingError:  # connecting raises the same error
        return text
    return make_conninfo(text, **_added(_POSTGRESQL[0], given, None, authority))


def _added(scheme: str, given: dict[str, str], host: str | None, authority: str) -> dict[str, str]:
    if scheme in _POSTGRESQL:
        # A socket has no name to verify. For other connections, libpq by default accepts any certificate, and plain text.
        over_socket = not host and given.get("host", "/").startswith("/")
        return {} if over_socket or "sslmode" in given else {"sslmode": "verify-full", "sslrootcert": authority}
    parameter = _PARAMETERS.get(scheme)
    return {} if parameter is None or parameter in given else {parameter: authority}
