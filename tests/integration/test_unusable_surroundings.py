"""Commands without what they stand on end with a line that says what is missing, not with a traceback."""

import json
from pathlib import Path

import pytest

from gridfleet.kernel.security.keyring import Keyring
from support.clients.command_line import gridfleet
from support.servers.free_ports import free_ports

_PORTS = [
    f"GRIDFLEET_{name}_PORT"
    for name in ("HTTP", "INTERNAL", "AMQP", "AMQPS", "MQTT", "MQTTS", "MANAGEMENT", "BROKER_METRICS", "BROKER_DIST", "EPMD")
]


@pytest.mark.parametrize("words", [("setup", "database"), ("serve",), ("jobs",)])
def test_a_setting_that_is_missing_is_named(home: Path, words: tuple[str, ...]) -> None:
    done = gridfleet(*words, environment={"GRIDFLEET_HOME": home, "GRIDFLEET_LOG_FORMAT": "json"})
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    said = json.loads(line)["reason"] if line.startswith("{") else line
    assert "is not set" in said
    assert "GRIDFLEET_" in said


def test_a_keyring_that_cannot_be_read_is_not_repeated(home: Path) -> None:
    done = gridfleet("serve", environment={"GRIDFLEET_HOME": home, "GRIDFLEET_KEYS": "1:hush"})
    assert done.returncode == 1
    assert "a keyring (GRIDFLEET_KEYS, else secrets/keys) is written" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "hush" not in done.stderr


def test_servers_that_are_away_are_named(home: Path) -> None:
    [port] = free_ports(1)
    environment = {
        "GRIDFLEET_HOME": home,
        "GRIDFLEET_KEYS": Keyring.generate(),
        "GRIDFLEET_DATABASE_URL": f"postgresql://a:hush@127.0.0.1:{port}/x",
        "GRIDFLEET_BROKER_URL": f"amqp://a:hush@127.0.0.1:{port}",
        "GRIDFLEET_BROKER_MANAGEMENT_URL": f"http://a:hush@127.0.0.1:{port}",
    }
    for step in ("database", "broker"):
        done = gridfleet("setup", step, environment=environment)
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert str(port) in line
        assert "hush" not in line


def test_a_home_that_cannot_be_made_is_named(home: Path) -> None:
    (home / "file").touch()
    done = gridfleet("up", environment={"GRIDFLEET_HOME": home / "file" / "home"})
    assert done.returncode == 1
    assert str(home / "file" / "home") in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_database_without_its_keyring_gets_no_new_one(home: Path) -> None:
    (home / "postgres").mkdir()
    (home / "postgres" / "PG_VERSION").touch()
    (home / "secrets").mkdir()
    (home / "secrets" / "keys").touch()
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    done = gridfleet("up", environment={"GRIDFLEET_HOME": home, **ports})
    assert done.returncode == 1
    assert "secrets/keys is missing or empty" in done.stdout
    assert (home / "secrets" / "keys").read_text() == ""


def test_a_start_with_a_keyring_in_the_environment_makes_no_other_one(home: Path) -> None:
    """`gridfleet backup` without the variable would store it."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    database = f"postgresql://nowhere@127.0.0.1:{free_ports(1)[0]}/gridfleet"
    environment = {"GRIDFLEET_HOME": home, "GRIDFLEET_KEYS": Keyring.generate(), "GRIDFLEET_DATABASE_URL": database, **ports}
    done = gridfleet("up", environment=environment)
    assert "preparing the database failed" in done.stdout
    assert {path.name for path in (home / "secrets").iterdir()} == {"internal_secret", "broker_password"}


@pytest.mark.parametrize("words", [("setup", "database"), ("serve",)])
def test_a_keyring_of_another_database_is_reported(database_url: str, home: Path, words: tuple[str, ...]) -> None:
    environment = {"GRIDFLEET_HOME": home, "GRIDFLEET_DATABASE_URL": database_url}
    first = gridfleet("setup", "database", environment={**environment, "GRIDFLEET_KEYS": Keyring.generate()})
    assert first.returncode == 0, first.stderr
    done = gridfleet(*words, environment={**environment, "GRIDFLEET_KEYS": Keyring.generate()})
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "does not belong to this database" in line


def test_a_port_that_does_not_exist_is_named(home: Path) -> None:
    done = gridfleet("up", environment={"GRIDFLEET_HOME": home, "GRIDFLEET_MQTTS_PORT": 88_830})
    assert done.returncode == 2
    assert done.stderr.startswith("GRIDFLEET_MQTTS_PORT: ")
