"""Authorities that were made elsewhere."""

import pytest
from cryptography import x509

from authorities import company_authority
from gridfleet.kernel.security.certificates import Authority

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


def test_one_that_may_not_sign_or_has_expired_is_refused() -> None:
    leaf, old = company_authority("Leaf", ca=False), company_authority("Old", days=-1)
    with pytest.raises(ValueError, match="CN=Leaf may not sign"):
        Authority.load(leaf.pem, leaf.key_pem())
    with pytest.raises(ValueError, match="CN=Old is not valid now"):
        Authority.load(old.pem, old.key_pem())


def test_an_encrypted_key_needs_its_password() -> None:
    encrypted = ROOT.key_pem(b"secret")
    with pytest.raises(TypeError):
        Authority.load(ROOT.pem, encrypted)
    assert Authority.load(ROOT.pem, encrypted, b"secret").key_pem == ROOT.key_pem().decode()
