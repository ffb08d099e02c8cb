"""Packages are read strictly where it matters and keep their secrets to themselves."""

import json
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gridfleet.sdk.plant import AuthMethod, Package, PackageError

PLANT_ID = "018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d"


def document(method: str = "PASSWORD", **security: Any) -> dict[str, Any]:
    base = f"v1/plants/{PLANT_ID}"
    return {
        "plantId": PLANT_ID,
        "authMethod": method,
        "mqtt": {
            "broker": "broker.example",
            "port": 8883,
            "tls": method != "PASSWORD",
            "username": None if method == "MTLS" else PLANT_ID,
            "clientId": PLANT_ID,
            "topics": {name: f"{base}/{name}" for name in ("telemetry", "status", "commands", "ack")},
        },
        "protocol": {"version": 1, "qos": 1, "keepAliveSeconds": 45, "maxMessageBytes": 1000},
        "security": {
            "caCert": None,
            "clientCert": None,
            "clientKey": None,
            "hmacSecret": "ab" * 32,
            "password": "s3cret" if method == "PASSWORD" else None,
            **security,
        },
    }


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plant.json"
    path.write_text(json.dumps(document()))

    package = Package.load(path)

    assert package.plant_id == PLANT_ID
    assert package.auth_method is AuthMethod.PASSWORD
    assert package.user_name == PLANT_ID
    assert package.signing_key == b"\xab" * 32
    assert (package.protocol.keep_alive_seconds, package.protocol.max_message_bytes) == (45, 1000)
    assert package.tls_context() is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a provisioning package"),
        ("[]", "not a provisioning package"),
        (json.dumps(document("OTHER")), "OTHER"),
        (json.dumps(document(hmacSecret="ab")), "hmacSecret"),
        (json.dumps(document(password=None)), "password"),
        (json.dumps(document("MTLS")), "clientCert"),
        (json.dumps({**document("TOKEN"), "mqtt": document("PASSWORD")["mqtt"]}), "tls"),
    ],
)
def test_an_incomplete_package_says_what_is_wrong(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "plant.json"
    path.write_text(text)
    with pytest.raises(PackageError, match=complaint) as raised:
        Package.load(path)
    assert str(path) in str(raised.value)


def test_the_addresses_begin_with_the_broker_of_the_package() -> None:
    def addresses(*listed: tuple[str, int], **changes: Any) -> list[str]:
        package = document()
        if listed:
            package["mqtt"]["addresses"] = [{"host": host, "port": port, "zone": "b"} for host, port in listed]
        package["mqtt"] |= changes
        return [str(address) for address in Package.parse(json.dumps(package)).addresses]

    several = (("broker.example", 8883), ("mq2.example", 8883), ("192.0.2.3", 8884))
    assert addresses() == ["broker.example:8883"]
    assert addresses(addresses=[]) == ["broker.example:8883"]
    assert addresses(*several) == ["broker.example:8883", "mq2.example:8883", "192.0.2.3:8884"]
    assert addresses(*several, port=1883) == ["broker.example:1883"], "changed by hand to the plain listener"


def test_a_missing_file_is_a_package_error(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="No such file"):
        Package.load(tmp_path / "absent.json")


def test_secrets_are_not_printed() -> None:
    text = repr(Package.parse(json.dumps(document())))
    assert "s3cret" not in text
    assert "abab" not in text


def test_the_key_leaves_no_file(authority: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    issued = authority.issue_client(PLANT_ID)
    files = {"caCert": authority.certificate_pem, "clientCert": issued.certificate_pem, "clientKey": issued.key_pem}
    package = Package.parse(json.dumps(document("MTLS", **files)))

    context = package.tls_context()

    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1
    assert package.user_name is None
    assert list(tmp_path.iterdir()) == []
