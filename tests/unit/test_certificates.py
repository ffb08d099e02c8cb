"""Authorities that were made elsewhere."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gridfleet.kernel.security.certificates import Authority
from support.servers.authorities import EXTENSIONS, company_authority

ROOT = company_authority("Root", with_rsa=True)
ISSUING = company_authority("Issuing", ROOT)


def test_a_root_issues() -> None:
    authority = Authority.load(ROOT.pem, ROOT.key_pem())

    issued = authority.issue_client("plant")

    x509.load_pem_x509_certificate(issued.certificate_pem.encode()).verify_directly_issued_by(ROOT.certificate)
    assert authority.intermediates_pem == ""
    assert authority.expires_at == ROOT.certificate.not_valid_after_utc


def test_one_below_a_root_keeps_its_chain() -> None:
    authority = Authority.load(ISSUING.pem + ROOT.pem, ISSUING.key_pem())

    issued = authority.issue_client("plant")

    x509.load_pem_x509_certificate(issued.certificate_pem.encode()).verify_directly_issued_by(ISSUING.certificate)
    assert authority.certificate_pem == (ISSUING.pem + ROOT.pem).decode()
    assert authority.intermediates_pem == ISSUING.pem.decode()


def test_our_own_can_be_loaded_again() -> None:
    ours = Authority.create()

    assert Authority.load(ours.certificate_pem.encode(), ours.key_pem.encode()) == ours


@pytest.mark.parametrize(
    ("certificates", "key", "complaint"),
    [
        (ISSUING.pem + ROOT.pem, ROOT.key_pem(), "does not belong"),
        (ISSUING.pem, ISSUING.key_pem(), "not followed by the certificate that issued it"),
        (ISSUING.pem + company_authority("Root").pem, ISSUING.key_pem(), "not followed"),
        (b"nothing", ROOT.key_pem(), "PEM"),
        (ROOT.pem, b"nothing", "PEM|deserialize"),
    ],
)
def test_what_does_not_fit_is_refused(certificates: bytes, key: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Authority.load(certificates, key)


def test_a_certificate_with_one_extension_twice_is_refused() -> None:
    key_usage, basic_constraints = bytes.fromhex("0603551d0f"), bytes.fromhex("0603551d13")
    changed = ROOT.certificate.public_bytes(Encoding.DER).replace(key_usage, basic_constraints)
    with pytest.raises(ValueError, match=r"cannot be read: Duplicate 2\.5\.29\.19 extension"):
        Authority.load(ssl.DER_cert_to_PEM_cert(changed).encode(), ROOT.key_pem())


def test_one_that_may_not_sign_or_has_expired_is_refused() -> None:
    leaf, old = company_authority("Leaf", ca=False), company_authority("Old", days=-1)
    with pytest.raises(ValueError, match="CN=Leaf may not sign"):
        Authority.load(leaf.pem, leaf.key_pem())
    with pytest.raises(ValueError, match="CN=Old is not valid now"):
        Authority.load(old.pem, old.key_pem())


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_one_without_the_extensions_that_strict_clients_need_is_refused(extension: str) -> None:
    issuing = company_authority("Incomplete", ROOT, without=extension)
    with pytest.raises(ValueError, match=f"CN=Incomplete has no {extension}, without which Python 3.13"):
        Authority.load(issuing.pem + ROOT.pem, issuing.key_pem())
    root = company_authority("Root", without=extension)
    if extension == "authority key identifier":
        assert Authority.load(root.pem, root.key_pem())
    else:
        with pytest.raises(ValueError, match=f"CN=Root has no {extension}"):
            Authority.load(root.pem, root.key_pem())


def test_one_whose_constraints_are_not_critical_is_refused() -> None:
    loose = company_authority("Loose", critical=False)
    with pytest.raises(ValueError, match="CN=Loose has basic constraints that are not critical"):
        Authority.load(loose.pem, loose.key_pem())


@pytest.mark.parametrize(
    "authority",
    [
        Authority.create(),
        Authority.load(ROOT.pem, ROOT.key_pem()),
        Authority.load(ISSUING.pem + ROOT.pem, ISSUING.key_pem()),
    ],
    ids=["ours", "root", "below a root"],
)
def test_what_is_issued_passes_a_strict_verification(authority: Authority, tmp_path: Path) -> None:
    """As Python 3.13 and newer verify by default."""
    issued = authority.issue_server(["localhost"])
    (tmp_path / "server.pem").write_text(issued.certificate_pem + authority.intermediates_pem + issued.key_pem)
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(tmp_path / "server.pem")
    trusting = ssl.create_default_context(cadata=authority.certificate_pem)
    trusting.verify_flags = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_TRUSTED_FIRST
    shake_hands(served, trusting)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """A TLS handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while waiting:
        side = waiting.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)


def test_an_encrypted_key_needs_its_password() -> None:
    encrypted = ROOT.key_pem(b"secret")
    with pytest.raises(TypeError):
        Authority.load(ROOT.pem, encrypted)
    assert Authority.load(ROOT.pem, encrypted, b"secret").key_pem == ROOT.key_pem().decode()
