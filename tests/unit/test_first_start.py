"""What the first start makes, and what it finds out about ports, before any server runs."""

import socket
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.private_files import write_private
from gridfleet.kernel.security import certificates
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.local.broker import server_certificate
from gridfleet.local.broker.server_certificate import write_server_certificate
from gridfleet.local.ports import check_ports
from gridfleet.local.secrets import ensure_local_secrets, local_secret
from support.servers.free_ports import settings_at


def test_secrets_are_made_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    ensure_local_secrets(tmp_path)
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert set(made) == {"internal_secret", "keys", "broker_password"}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "secrets").iterdir()} == {0o600}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert Keyring.parse(local_secret(tmp_path, "keys")).versions == (1,)
    ensure_local_secrets(tmp_path)
    assert {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()} == made


def test_no_keyring_is_made_beside_that_of_the_environment(tmp_path: Path) -> None:
    ensure_local_secrets(tmp_path, with_keyring=False)
    assert {path.name for path in (tmp_path / "secrets").iterdir()} == {"internal_secret", "broker_password"}


def test_a_secret_is_never_half_written(tmp_path: Path) -> None:
    write_private(tmp_path / "secret", "old")
    with pytest.raises(UnicodeEncodeError):
        write_private(tmp_path / "secret", "new \ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert (tmp_path / "secret").read_text() == "old"


def test_the_server_certificate_stays_while_it_fits(tmp_path: Path) -> None:
    authority = Authority.create()

    def serial(hosts: list[str], issuer: Authority = authority) -> int:
        write_server_certificate(tmp_path, issuer, hosts)
        return x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes()).serial_number

    first = serial(["localhost", "127.0.0.1"])
    assert serial(["localhost", "127.0.0.1"]) == first
    second = serial(["mqtt.example.com", "localhost"])
    assert second != first
    assert serial(["mqtt.example.com", "localhost"], Authority.create()) != second
    assert (tmp_path / "server.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["server.key", "server.pem", "server.hosts", "ca.pem"])
def test_an_interrupted_change_of_the_authority_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_server_certificate(tmp_path, Authority.create(), ["localhost"])

    def fail_at(path: Path, text: str) -> None:
        if path.name == name:
            raise OSError("interrupted")
        write_private(path, text)

    authority = Authority.create()
    with monkeypatch.context() as patched:
        patched.setattr(server_certificate, "write_private", fail_at)
        with pytest.raises(OSError, match="interrupted"):
            write_server_certificate(tmp_path, authority, ["localhost"])
    write_server_certificate(tmp_path, authority, ["localhost"])

    issuer = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    certificate.verify_directly_issued_by(issuer)
    assert (tmp_path / "ca.pem").read_text() == authority.certificate_pem
    key = load_pem_private_key((tmp_path / "server.key").read_bytes(), None)
    assert key.public_key() == certificate.public_key()


def test_a_server_certificate_about_to_end_is_replaced(tmp_path: Path) -> None:
    authority = Authority.create()
    write_server_certificate(tmp_path, authority, ["localhost"])
    ending = authority.issue_server(["localhost"], timedelta(days=29))
    (tmp_path / "server.pem").write_text(ending.certificate_pem)
    write_server_certificate(tmp_path, authority, ["localhost"])
    assert (tmp_path / "server.pem").read_text() != ending.certificate_pem


def test_a_server_certificate_from_a_clock_ahead_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority.create()
    with monkeypatch.context() as ahead:
        for module in (certificates, server_certificate):
            ahead.setattr(module, "utc_now", lambda: utc_now() + timedelta(hours=2))
        write_server_certificate(tmp_path, authority, ["localhost"])
    early = (tmp_path / "server.pem").read_text()
    write_server_certificate(tmp_path, authority, ["localhost"])
    assert (tmp_path / "server.pem").read_text() != early


def test_free_ports_are_no_problem(tmp_path: Path) -> None:
    assert check_ports(settings_at(tmp_path), with_broker=True) == []


def test_a_port_given_twice_and_an_occupied_one_are_both_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        free = settings_at(tmp_path)
        settings = free.model_copy(update={"http_port": taken, "mqtts_port": free.mqtt_port})
        complaints = [str(problem) for problem in check_ports(settings, with_broker=True)]
    assert len(complaints) == 2
    assert complaints[0].startswith(f"port {taken} of 127.0.0.1 is in use")
    assert "GRIDFLEET_HTTP_PORT" in complaints[0]
    assert (
        complaints[1] == f"port {free.mqtt_port} is given to GRIDFLEET_MQTT_PORT too: set GRIDFLEET_MQTTS_PORT to another one"
    )


def test_an_external_broker_needs_no_broker_ports(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = settings_at(tmp_path, mqtt_port=other.getsockname()[1])
        assert check_ports(settings, with_broker=False) == []
