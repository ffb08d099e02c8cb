"""External certificate authorities of a company: a root that signs an issuing authority."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class CompanyAuthority:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self, password: bytes | None = None) -> bytes:
        """Return the key as PEM, encrypted if there is a password."""
        encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


EXTENSIONS = ("key usage", "subject key identifier", "authority key identifier")
"""Extensions that RFC 5280 requires of an authority beside basic constraints. A root does not need the last one."""


def company_authority(
    name: str,
    issuer: CompanyAuthority | None = None,
    *,
    with_rsa: bool = False,
    ca: bool = True,
    days: int = 3650,
    without: str = "",
    critical: bool = True,
) -> CompanyAuthority:
    """Return a root, or an authority issued by `issuer`.

    Args:
        name: The common name.
        issuer: The issuing authority, or None for a root.
        with_rsa: Whether the key is RSA.
        ca: Whether the basic constraints mark an authority.
        days: The validity in days.
        without: The name of an extension to omit.
        critical: Whether the basic constraints are critical.
    """
    key: PrivateKey = rsa.generate_private_key(65537, 2048) if with_rsa else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    # Not the usual digest of the key: an authority may choose its identifier freely.
    identifier = x509.SubjectKeyIdentifier(name.encode())
    issued_by = issuer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value if issuer else identifier
    usage = x509.KeyUsage(False, False, False, False, False, ca, ca, False, False)
    extensions = (usage, identifier, x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issued_by))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=critical)
    )
    for label, extension in zip(EXTENSIONS, extensions, strict=True):
        if label != without:
            builder = builder.add_extension(extension, critical=label == "key usage")
    return CompanyAuthority(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)
