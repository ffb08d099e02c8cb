"""`gridfleet admin`: what the operator does without a session."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.clients.people import People, refused


class Command:
    """The command on the test's database."""

    def __init__(self, people: People, home: Path) -> None:
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "GRIDFLEET_HOME": str(home),
            "GRIDFLEET_DATABASE_URL": people.service.state.database.url,
        }

    def run(self, *words: str, entered: str = "", code: int = 0) -> str:
        """Standard output, or for a failure the complaint."""
        done = subprocess.run(
            [sys.executable, "-m", "gridfleet", "admin", *words],
            env=self._environment,
            input=entered,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr


@pytest.fixture
def command(people: People, home: Path) -> Command:
    return Command(people, home)


async def test_a_super_admin_is_made_and_logs_in_with_the_password_shown(people: People, command: Command) -> None:
    shown = command.run("create", "Root@Example.com", "--name", "Root")
    password = re.findall(r"shown this once\): (\S+)", shown)[0]
    user = (await people.log_in("root@example.com", password)).json()["user"]
    assert (user["isSuperAdmin"], user["name"]) == (True, "Root")
    assert "root@example.com  Root" in command.run("list")
    events = await people.events(of=user["id"])
    assert [event["event"] for event in events][:2] == ["user.registered", "user.made_super_admin"]
    assert {event["actorType"] for event in events[:2]} == {"SYSTEM"}


async def test_a_given_password_is_not_repeated(people: People, command: Command) -> None:
    shown = command.run("create", "root@example.com", "--password-stdin", entered="my own password\n")
    assert "password" not in shown
    assert (await people.log_in("root@example.com", "my own password")).status_code == 200


async def test_a_reset_opens_a_locked_account_and_ends_its_sessions(people: People, command: Command) -> None:
    ada = await people.with_password("ada@example.com")
    for _ in range(11):
        await people.log_in("ada@example.com", "wrong password")
    command.run("reset-password", "ADA@example.com", "--password-stdin", entered="quite another password\n")
    refused(await people.call("GET", "/auth/me", who=ada), 401, "UNAUTHORIZED")
    assert (await people.log_in("ada@example.com", "quite another password")).status_code == 200


async def test_an_account_is_promoted_once(people: People, command: Command) -> None:
    ada = await people.with_password("ada@example.com")
    assert "SuperAdmin now" in command.run("create", "ada@example.com", "--promote")
    assert "SuperAdmin already" in command.run("create", "ada@example.com", "--promote")
    assert (await people.call("GET", "/users", who=ada)).status_code == 200


async def test_what_is_refused_in_words(people: People, command: Command) -> None:
    await people.person("ada@example.com")
    assert "--promote" in command.run("create", "ada@example.com", code=1)
    assert "no account" in command.run("create", "nobody@example.com", "--promote", code=1)
    assert "no account" in command.run("reset-password", "nobody@example.com", code=1)
    assert "not an e-mail address" in command.run("create", "nonsense", code=1)
    assert "8 to 256" in command.run("create", "new@example.com", "--password-stdin", entered="short\n", code=1)
