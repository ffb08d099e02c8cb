"""What a slip in a setting is answered with: one line that names the variable and says what belongs there."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gridfleet.cli import application
from gridfleet.cli.doctor.environment import check_variables
from gridfleet.kernel.outages import MissingSetting
from gridfleet.kernel.settings import Settings, unknown_variables
from gridfleet.local.machine import Machine
from gridfleet.local.terminal import Terminal
from support.clients.command_line import gridfleet


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home with nothing in it."""
    monkeypatch.setenv("GRIDFLEET_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("GRIDFLEET_HTTP_PORT", "99999", "GRIDFLEET_HTTP_PORT: must be at most 65535"),
        ("GRIDFLEET_HTTP_PORT", "abc", "GRIDFLEET_HTTP_PORT: must be a whole number"),
        ("GRIDFLEET_LOG_FORMAT", "xml", "GRIDFLEET_LOG_FORMAT: must be 'console' or 'json'"),
        ("GRIDFLEET_HTTP_CERTIFICATE", "/x", "GRIDFLEET_HTTP_CERTIFICATE and GRIDFLEET_HTTP_KEY must be set together"),
        (
            "GRIDFLEET_TRUSTED_PROXIES",
            "10.0.0.1,10.0.0.300",
            "GRIDFLEET_TRUSTED_PROXIES: '10.0.0.300' does not appear to be an IPv4 or IPv6 network",
        ),
        (
            "GRIDFLEET_MQTT_FURTHER_HOSTS",
            "mq2.example.org,mq3.example.org:8883",
            "GRIDFLEET_MQTT_FURTHER_HOSTS: must be host names or IP addresses, without ports",
        ),
        (
            "GRIDFLEET_DATABASE_URL",
            "db.example.org",
            "GRIDFLEET_DATABASE_URL: must be postgresql://user:password@host:port/database",
        ),
        (
            "GRIDFLEET_BROKER_URL",
            "mq.example.org:5672",
            "GRIDFLEET_BROKER_URL: must be amqp://user:password@host:port, or amqps:// for TLS",
        ),
        (
            "GRIDFLEET_PUBLIC_URL",
            "fleet.example.org",
            "GRIDFLEET_PUBLIC_URL: must be https://host or http://host, the address that users open in a browser",
        ),
    ],
)
def test_a_value_that_cannot_be_read_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, complaint: str
) -> None:
    monkeypatch.setenv(name, value)

    done = CliRunner().invoke(application, ["doctor"])

    assert (done.exit_code, done.output.strip()) == (2, complaint)


def test_a_libpq_string_is_an_address_too() -> None:
    assert Settings(database_url="host=/run/postgresql dbname=fleet").database_url is not None  # type: ignore[arg-type]


def test_hosts_of_the_broker_are_in_order_and_named_once() -> None:
    further = "mq2.example.org, 2001:db8::3,mq1.example.org,,192.0.2.4"
    settings = Settings(mqtt_host="mq1.example.org", mqtt_further_hosts=further)  # type: ignore[arg-type]
    assert settings.broker_hosts == ("mq1.example.org", "mq2.example.org", "2001:db8::3", "192.0.2.4")
    assert Settings(mqtt_host="mq1.example.org").broker_hosts == ("mq1.example.org",)


def test_a_misspelt_variable_is_named_with_the_one_that_was_meant() -> None:
    environment = ["PATH", "GRIDFLEET_HTPP_PORT", "GRIDFLEET_API", "gridfleet_home", "GRIDFLEET_SOMETHING_ELSE_ALTOGETHER"]

    assert list(unknown_variables(environment)) == [
        "GRIDFLEET_HTPP_PORT is not a setting (did you mean GRIDFLEET_HTTP_PORT?)",
        "GRIDFLEET_SOMETHING_ELSE_ALTOGETHER is not a setting",
    ]
    assert check_variables(environment).status == "warn"
    assert check_variables(["GRIDFLEET_HOME"]).status == "ok"


async def test_up_says_so_before_anything_else(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GRIDFLEET_HTPP_PORT", "9090")

    # A broker without its management interface: `up` ends before it starts anything.
    code = await Machine(Settings(broker_url="amqp://a:b@localhost", broker_management_url=None)).run()  # type: ignore[arg-type]

    assert code == 1
    first, second = capsys.readouterr().out.splitlines()
    assert "GRIDFLEET_HTPP_PORT is not a setting (did you mean GRIDFLEET_HTTP_PORT?): it changes nothing" in first
    assert "requires GRIDFLEET_BROKER_MANAGEMENT_URL" in second


@pytest.mark.parametrize("process", ["serve", "jobs"])
def test_a_process_without_what_it_needs_says_what_to_set(process: str, home: Path) -> None:
    """As shown to an operator who starts one by hand, or whose unit lacks a line: no traceback."""
    done = gridfleet(process, environment={"GRIDFLEET_HOME": home})

    assert done.returncode == 1
    assert "is not set" in done.stdout + done.stderr
    assert "gridfleet up" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_server_that_is_not_named_is_not_looked_for_in_a_file(home: Path) -> None:
    with pytest.raises(MissingSetting, match=r"^GRIDFLEET_DATABASE_URL is not set: set it, or run `gridfleet up`$"):
        Settings().secret("database_url")
    with pytest.raises(MissingSetting, match=f"^GRIDFLEET_KEYS is not set and {home}/secrets/keys does not exist"):
        Settings().secret("keys")


def test_the_first_start_does_not_begin_with_fatal(capsys: pytest.CaptureFixture[str]) -> None:
    """PostgreSQL answers so to the check for readiness, which `gridfleet up` itself makes."""
    Terminal().log("postgres", "FATAL:  the database system is starting up")
    Terminal().log("postgres", 'FATAL:  role "x" does not exist')

    assert capsys.readouterr().out.split() == ["postgres", "FATAL:", "role", '"x"', "does", "not", "exist"]


def test_the_release_can_be_asked_for() -> None:
    done = CliRunner().invoke(application, ["--version"])

    assert done.exit_code == 0
    assert done.output.startswith("gridfleet 0.")


def test_a_command_without_a_database_says_where_it_looked(home: Path) -> None:
    done = CliRunner().invoke(application, ["db", "check"])

    assert done.exit_code == 2
    assert done.output.startswith(f"no database is running for {home}: start `gridfleet up`")


async def test_up_names_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert await Machine(Settings(ca_file=Path("/no/such.pem"))).run() == 1
    assert "GRIDFLEET_CA_FILE: there is no file /no/such.pem" in capsys.readouterr().out


def test_a_keyring_that_cannot_be_read_is_one_line_of_setup(home: Path) -> None:
    environment = {
        "GRIDFLEET_HOME": home,
        "GRIDFLEET_DATABASE_URL": "postgresql://a:b@127.0.0.1:1/x",
        "GRIDFLEET_KEYS": "1:abc",
    }

    done = gridfleet("setup", "database", environment=environment)

    assert done.returncode == 1
    assert done.stderr.startswith("a keyring (GRIDFLEET_KEYS, else secrets/keys) is written 1:<64 hex digits>")
    assert "Traceback" not in done.stderr


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of variables and Compose leave many of them empty. An empty secret would guard nothing."""
    for name in Settings.model_fields:
        monkeypatch.setenv(f"GRIDFLEET_{name.upper()}", "")
    assert Settings().model_fields_set == set()
    assert (Settings().internal_secret, Settings().database_url, Settings().ca_file) == (None, None, None)


def test_a_home_in_a_file_of_variables_may_begin_with_a_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No shell replaces it there. `gridfleet backup` did not find the keys of the service that `gridfleet up` had started."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GRIDFLEET_HOME", "~/fleet")
    assert Settings().home == tmp_path / "fleet"
