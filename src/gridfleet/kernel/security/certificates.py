"""X.509: a small certificate authority (RFC 5280), as pure functions over PEM. Generated keys are EC P-256."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gridfleet.kernel.clock import utc_now

__all__ = ["AUTHORITY_LIFETIME", "LEAF_LIFETIME", "Authority", "IssuedCertificate"]

AUTHORITY_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=365)
_BACKDATE = timedelta(minutes=5)
"""Tolerates clocks of field equipment that are slightly behind."""
_UNREADABLE = (UnsupportedAlgorithm, x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType)
"""Errors of `cryptography` about certificates and keys that are not a ValueError."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A leaf certificate with its key. `serial_number` and `fingerprint` (SHA-256) are lowercase hex."""

    certificate_pem: str
    key_pem: str = field(repr=False)
    serial_number: str
    fingerprint: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: its certificate and its private key, both PEM.

    The certificate may be followed by those above it, up to the root.
    """

    certificate_pem: str
    key_pem: str = field(repr=False)

    @classmethod
    def create(cls, name: str = "Gridfleet authority") -> "Authority":
        """Create a self-signed authority that can sign leaf certificates only."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = utc_now()
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATE)
            .not_valid_after(now + AUTHORITY_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(_pem(certificate), _key_pem(key))

    @classmethod
    def load(cls, certificates: bytes, key: bytes, password: bytes | None = None) -> "Authority":
        """Load an existing authority: its certificate, followed by those above it unless it is a root, and its key (PEM).

        Raises:
            ValueError: The certificates or the key are unsuitable; the text gives the reason.
            TypeError: The key is encrypted and there is no password.
        """
        try:
            return cls._load(certificates, key, password)
        except _UNREADABLE as error:
            raise ValueError(f"the certificates or the key cannot be read: {error}") from None

    @classmethod
    def _load(cls, certificates: bytes, key: bytes, password: bytes | None) -> "Authority":
        chain = x509.load_pem_x509_certificates(certificates)
        private_key = serialization.load_pem_private_key(key, password)
        if not isinstance(private_key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("the key must be an elliptic-curve or RSA key")
        if private_key.public_key() != chain[0].public_key():
            raise ValueError("the key does not belong to the first certificate")
        now = utc_now()
        for number, certificate in enumerate(chain):
            subject = certificate.subject.rfc4514_string()
            if not _may_sign(certificate):
                raise ValueError(f"{subject} may not sign certificates")
            _require_extensions(certificate, is_root=certificate.subject == certificate.issuer)
            if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc:
                raise ValueError(f"{subject} is not valid now")
            issuer = chain[min(number + 1, len(chain) - 1)]
            try:
                certificate.verify_directly_issued_by(issuer)
            except (ValueError, InvalidSignature):
                raise ValueError(f"{subject} is not followed by the certificate that issued it") from None
        key_pem = private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls("".join(map(_pem, chain)), key_pem.decode())

    @property
    def intermediates_pem(self) -> str:
        """The certificates that a server presents in addition to its own: all but the root."""
        chain = x509.load_pem_x509_certificates(self.certificate_pem.encode())
        return "".join(_pem(certificate) for certificate in chain if certificate.subject != certificate.issuer)

    @property
    def expires_at(self) -> datetime:
        """Expiry of the authority's own certificate."""
        return x509.load_pem_x509_certificate(self.certificate_pem.encode()).not_valid_after_utc

    def issue_client(self, common_name: str, lifetime: timedelta = LEAF_LIFETIME) -> IssuedCertificate:
        """Issue a client certificate whose subject contains the name and the certificate's own serial number.

        The broker forwards only the subject of a certificate. The serial number in it distinguishes a superseded certificate
        from its replacement.
        """
        serial = x509.random_serial_number()
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
                x509.NameAttribute(NameOID.SERIAL_NUMBER, f"{serial:x}"),
            ]
        )
        return self._issue(subject, serial, lifetime, ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def issue_server(self, hosts: Iterable[str], lifetime: timedelta = LEAF_LIFETIME) -> IssuedCertificate:
        """Issue a server certificate for host names and IP addresses. The first is its common name."""
        names = list(dict.fromkeys(hosts))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._issue(
            subject,
            x509.random_serial_number(),
            lifetime,
            ExtendedKeyUsageOID.SERVER_AUTH,
            [_general_name(name) for name in names],
        )

    def _issue(
        self,
        subject: x509.Name,
        serial: int,
        lifetime: timedelta,
        usage: x509.ObjectIdentifier,
        names: Iterable[x509.GeneralName],
    ) -> IssuedCertificate:
        issuer = x509.load_pem_x509_certificate(self.certificate_pem.encode())
        issuer_key = serialization.load_pem_private_key(self.key_pem.encode(), None)
        if not isinstance(issuer_key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("the authority's key must be an elliptic-curve or RSA key")
        key = ec.generate_private_key(ec.SECP256R1())
        now = utc_now()
        expires_at = min(now + lifetime, issuer.not_valid_after_utc).replace(microsecond=0)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.subject)
            .public_key(key.public_key())
            .serial_number(serial)
            .not_valid_before(now - _BACKDATE)
            .not_valid_after(expires_at)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_identifier_of(issuer), critical=False)
        )
        if names := list(names):
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(issuer_key, hashes.SHA256())
        return IssuedCertificate(
            _pem(certificate), _key_pem(key), f"{serial:x}", certificate.fingerprint(hashes.SHA256()).hex(), expires_at
        )


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    except x509.ExtensionNotFound as missing:
        return missing.oid == x509.KeyUsage.oid
    return usage.value.key_cert_sign


def _require_extensions(certificate: x509.Certificate, *, is_root: bool) -> None:
    """Raise ValueError unless the certificate has the extensions that RFC 5280 requires of an authority.

    The caller checks its right to sign.
    """
    subject = certificate.subject.rfc4514_string()
    required: dict[str, type[x509.ExtensionType]] = {
        "key usage": x509.KeyUsage,
        "subject key identifier": x509.SubjectKeyIdentifier,
    }
    if not is_root:
        required["authority key identifier"] = x509.AuthorityKeyIdentifier
    for name, kind in required.items():
        try:
            certificate.extensions.get_extension_for_class(kind)
        except x509.ExtensionNotFound:
            raise ValueError(
                f"{subject} has no {name}, without which Python 3.13 and other strict clients refuse it: have it issued again"
            ) from None
    if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).critical:
        raise ValueError(
            f"{subject} has basic constraints that are not critical, which Python 3.13 and other strict clients refuse: have it"
            " issued again"
        )


def _identifier_of(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Return the issuer's own identifier, which is not necessarily the usual digest of its key."""
    try:
        own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:  # imported by an earlier release
        key = issuer.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
            raise ValueError("the authority's key must be an elliptic-curve or RSA key") from None
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )
