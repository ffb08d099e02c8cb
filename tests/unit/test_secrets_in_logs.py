"""The search for secrets in logs finds what is planted, and nothing else."""

import json
from pathlib import Path

import httpx
import pytest

from support.servers.secrets_in_logs import SecretSearch, note_what_clients_see

SECRET = "Zq3vT9-k2LmX0w"
LINE = "2026-11-21T10:00:00Z [info     ] request  [gridfleet.access] method=GET path=/api/v1/plants"


def found(search: SecretSearch, *lines: str) -> list[str]:
    search.findings.clear()
    search.search([LINE, *lines], "up.log")
    return search.findings


@pytest.mark.parametrize(
    "line",
    [
        f"login with {SECRET}",
        f'{{"event": "failed", "password": "{SECRET}"}}',
        f"password={SECRET}",
        f"error='wrong {SECRET}.'",
        f"amqp://_gridfleet:{SECRET}@127.0.0.1:5672",
    ],
)
def test_a_known_secret_is_found_wherever_it_stands(line: str) -> None:
    search = SecretSearch()
    search.note({"data": [{"security": {"hmacSecret": None, "password": SECRET}}]})
    [finding, *_] = found(search, line)
    assert finding.startswith("up.log:2: ")
    assert SECRET not in finding or "address" in finding


@pytest.mark.parametrize(
    "line",
    [
        "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIwMThmNmIxZSJ9.c2lnbmF0dXJlLXNpZ25hdHVyZQ",
        "key gf_live_" + "a1B2" * 9 + "zz",
        "-----BEGIN PRIVATE KEY-----",
        "connecting to postgresql://gridfleet:hunter22@db.example.org/gridfleet",
    ],
)
def test_what_looks_like_a_secret_is_found_though_it_is_not_listed(line: str) -> None:
    assert len(found(SecretSearch(), line)) == 1


def test_ordinary_lines_and_what_is_meant_to_be_shown_are_left_alone() -> None:
    search = SecretSearch()
    search.note({"password": SECRET, "token": "short", "key": "telemetry", "name": "Visible-1234"})
    assert found(search, "Visible-1234", "telemetry", "short", f"│ Password     {SECRET} │", "http://localhost:8080/docs") == []


@pytest.mark.parametrize("reason", ["wrong password", "INVALID_CREDENTIALS"])
def test_what_the_source_says_itself_is_no_secret_though_a_test_sent_it_as_a_password(reason: str) -> None:
    search = SecretSearch()
    search.note({"password": reason})
    search.note({"password": SECRET})
    [finding] = found(search, f"plant refused  plant_id=01a1ff80 reason='{reason}'", f"and {SECRET}")
    assert finding.startswith("up.log:3: ")


def test_a_home_folder_is_searched_for_what_it_keeps(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "keys").write_text(f"1:{'5a' * 16}{'6b' * 16},2:{'7c' * 16}{'8d' * 16}\n")
    (tmp_path / "secrets" / "admin.json").write_text(json.dumps({"email": "a@example.com", "password": SECRET}))
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "1.eml").write_text("http://localhost/account/reset#token=" + "0f1e" * 16)
    (tmp_path / "up.log").write_text(f"{LINE}\n{'7c' * 16}{'8d' * 16}\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "node.log").write_text("0f1e" * 16 + f"\n{SECRET}")
    search = SecretSearch()
    search.search_home(tmp_path)
    places = [finding.partition(": ")[0] for finding in search.findings]
    assert places == [f"{tmp_path.name}/logs/node.log:1", f"{tmp_path.name}/logs/node.log:2", f"{tmp_path.name}/up.log:2"]


async def test_clients_of_the_tests_record_what_they_receive() -> None:
    search = SecretSearch()
    undo = note_what_clients_see(search)
    try:

        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={"access_token": SECRET}, headers={"set-cookie": f"gridfleet_refresh=r{SECRET}"})

        with httpx.Client(transport=httpx.MockTransport(answer)) as client:
            client.post("http://service/login", json={"password": f"p{SECRET}"})
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as awaited:
            await awaited.post("http://service/login", json={"newPassword": f"n{SECRET}"})
    finally:
        undo()
    assert search.known == {SECRET, f"r{SECRET}", f"p{SECRET}", f"n{SECRET}"}
