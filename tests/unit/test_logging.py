"""What logs hold, and what they must not."""

import subprocess
import sys

import pytest

PROGRAM = """
import logging, structlog
from gridfleet.kernel.logging import configure_logging
configure_logging("INFO", json={json})
def connect(url, password):
    key = bytes(range(32))
    raise ConnectionError("the server is away")
for log in (structlog.get_logger("a"), logging.getLogger("b")):
    try:
        connect("postgresql://gridfleet:hush@db/gridfleet", "hush")
    except ConnectionError:
        log.exception("connecting failed")
"""


@pytest.mark.parametrize("json", [True, False])
def test_an_exception_is_told_without_the_variables_around_it(json: bool) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(json=json)], capture_output=True, text=True, check=True)

    assert done.stderr.count("the server is away") == 2
    assert done.stderr.count("connecting failed") == 2
    assert done.stderr.count("in connect") == 2
    assert "hush" not in done.stderr
    assert "\\x1f" not in done.stderr
