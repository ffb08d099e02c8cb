"""What logs hold, and what they must not."""

import json
import subprocess
import sys

import pytest

from gridfleet.local.terminal import Terminal

PROGRAM = """
import logging, structlog, sys
from gridfleet.kernel.logging import configure_logging
configure_logging("INFO", json={json})
def connect(url, password):
    key = bytes(range(32))
    raise RuntimeError("the server " + "is away")
for log in (structlog.get_logger("a"), logging.getLogger("b")):
    try:
        connect(*sys.argv[1:])
    except RuntimeError:
        log.exception("connecting failed")
"""


@pytest.mark.parametrize("json", [True, False])
def test_an_exception_is_logged_without_the_variables_around_it(json: bool) -> None:
    program = [sys.executable, "-c", PROGRAM.format(json=json), "postgresql://gridfleet:hush@db/gridfleet", "hush"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)

    assert done.stderr.count("the server is away") == 2
    assert done.stderr.count("connecting failed") == 2
    assert done.stderr.count("in connect") == 2
    assert "hush" not in done.stderr
    assert "\\x1f" not in done.stderr


AWAY = """
import logging, psycopg
from gridfleet.kernel.logging import configure_logging
configure_logging("INFO", json={json})
for number in range(3):
    logging.getLogger("psycopg.pool").warning("error connecting in %r: %s", f"pool-{{number}}", "refused")
for error in (psycopg.OperationalError("refused"), ValueError("a bug")):
    try:
        raise error
    except Exception as caught:
        logging.getLogger("procrastinate.worker").error("Side task failed: \\n  %s\\n", caught, exc_info=caught)
"""


@pytest.mark.parametrize("json", [True, False])
def test_what_libraries_say_of_a_server_that_is_away_is_a_line(json: bool) -> None:
    done = subprocess.run([sys.executable, "-c", AWAY.format(json=json)], capture_output=True, text=True, check=True)

    assert done.stderr.count("error connecting in 'pool-0': refused") == 1
    assert "pool-1" not in done.stderr
    assert "Side task failed: refused (OperationalError: refused)" in done.stderr
    assert done.stderr.count("Traceback") == 1
    assert "ValueError: a bug" in done.stderr


UNFORTUNATE = """
import asyncio, gc, logging, sys, threading, warnings, structlog
from gridfleet.kernel.logging import configure_logging
configure_logging("INFO", json=True)
class Bad:
    def __del__(self):
        raise ValueError("in del")
Bad()
def fail(text):
    raise ValueError(text)
thread = threading.Thread(target=fail, args=("in thread",)); thread.start(); thread.join()
warnings.warn("a warning\\nof two lines")
logging.getLogger("library").warning("wrong %d arguments", "x")
structlog.get_logger("x").info("odd", value=object(), text="line\\nline \\u2028 \\x00", data=b"\\xff", nan=float("nan"))
async def main():
    task = asyncio.get_running_loop().create_task(broken())
    await asyncio.sleep(0); await asyncio.sleep(0)
    del task; gc.collect()
    asyncio.get_running_loop().call_soon(fail, "in callback")
    await asyncio.sleep(0.01)
async def broken():
    fail("in task")
asyncio.run(main())
fail("in main")
"""


def test_every_line_of_json_can_be_parsed_whatever_goes_wrong() -> None:
    done = subprocess.run([sys.executable, "-c", UNFORTUNATE], capture_output=True, text=True, check=False)

    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1
    assert all({"event", "level", "logger", "timestamp"} <= line.keys() for line in lines)
    logged = json.dumps(lines)
    for text in ("in del", "in thread", "in task", "in callback", "in main", "a warning", "odd"):
        assert text in logged


INJECTING = r"""
import logging, structlog
from gridfleet.kernel.logging import configure_logging
configure_logging("INFO", json=False)
text = "schedule.\x1b[2J\x1b]0;owned\x07\x9b31m\u2028\u202efalse\x7f"
structlog.get_logger("x").info("partner command processed", family=text, odd=[text], error=ValueError(text))
structlog.get_logger("x").info("order\n2026-01-01 [info] forged " + text)
logging.getLogger("library").warning("said %s", "a\r\nb " + text)
try:
    raise ValueError(text)
except ValueError:
    structlog.get_logger("x").exception("failed")
"""


def test_what_strangers_say_cannot_move_the_terminal_that_shows_the_log() -> None:
    """A partner's routing key, an ESM's words: printed as they came they could clear a screen, or invent lines."""
    done = subprocess.run([sys.executable, "-c", INJECTING], capture_output=True, text=True, check=True)

    assert "partner command processed" in done.stderr
    assert "owned" in done.stderr
    assert {char for char in done.stderr if not char.isprintable()} == {"\n"}
    assert not [line for line in done.stderr.splitlines() if line.startswith("2026-01-01")]
    assert "Traceback (most recent call last):\n" in done.stderr


def test_the_terminal_shows_no_other_programs_commands_either(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.log("broker", "[error] \x1b[33m<0.1.0> user 'x\x1b]0;owned\x07\x9b2J' refused\x1b[0m")
    terminal.log("postgres", "ERROR:  no\tsuch \u202erole")

    shown = capsys.readouterr().out
    assert "owned" in shown
    assert {char for char in shown if not char.isprintable()} == {"\n"}


PROCESS = """
import asyncio
from gridfleet import processes
from gridfleet.kernel.settings import Settings
async def main():
    raise RuntimeError("a process that fails")
processes._run(Settings(log_format="json", otlp_endpoint={endpoint!r}), "test", main())
"""


def test_a_process_that_fails_says_so_in_one_line() -> None:
    done = subprocess.run([sys.executable, "-c", PROCESS.format(endpoint="")], capture_output=True, text=True, check=False)

    (line,) = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, line["event"], line["level"]) == (1, "process failed", "critical")
    assert "a process that fails" in line["exception"]


def test_traces_without_their_library_are_refused_with_what_to_install() -> None:
    missing = "import sys\nsys.modules['opentelemetry.sdk'] = None\n" + PROCESS.format(endpoint="http://localhost:4318")
    done = subprocess.run([sys.executable, "-c", missing], capture_output=True, text=True, check=False)

    (line,) = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, line["event"]) == (1, "cannot start")
    assert "pip install -e '.[otel]'" in line["reason"]


def test_without_the_setting_nothing_but_the_api_of_the_tracing_library_is_loaded() -> None:
    program = "import sys, gridfleet.api.http.app, gridfleet.jobs.schedule, gridfleet.mqtt.worker, gridfleet.amqp.effects\n"
    program += "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_the_one_log_of_all_processes_is_json_whichever_library_wrote_it(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(as_json=True)
    terminal.step("PostgreSQL is running")
    terminal.problem("a port is taken")
    terminal.log("serve", '{"event": "request", "level": "info", "ms": 1.5}')
    terminal.log("serve", "thread '<unnamed>' panicked at {")
    terminal.log("postgres", '2026-01-01 UTC [5] ERROR:  division by "zero"')
    terminal.log("broker", "\x1b[33m2026-01-01 [warning] <0.1.0> memory")
    terminal.table("ready", {"API": "http://localhost", "Password": "hush"}, ["Ctrl-C"])

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["process"], line["level"]) for line in found] == [
        ("up", "info"),
        ("up", "error"),
        ("serve", "info"),
        ("serve", "info"),
        ("postgres", "error"),
        ("broker", "warning"),
        ("up", "info"),
    ]
    assert found[2]["ms"] == 1.5
    assert "hush" not in json.dumps(found)
