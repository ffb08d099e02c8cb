"""The system user for the servers' data, created by several processes at the same time."""

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator

import pytest

CALL = "import sys; from gridfleet.local.system_user import ensure_system_user; print(ensure_system_user(sys.argv[1]).pw_uid)"


@pytest.fixture
def name() -> Iterator[str]:
    found = f"gridfleet-test-{os.getpid()}"
    yield found
    subprocess.run(["userdel", found], check=True, capture_output=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root creates system users")
def test_processes_that_create_the_user_at_once_get_the_same(name: str) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", CALL, name], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    ids = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert ids == {str(pwd.getpwnam(name).pw_uid)}
