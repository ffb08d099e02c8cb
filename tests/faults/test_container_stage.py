"""What the Containerfile does to make its programs, done on this machine: there is no container engine to ask."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers.deployed_stack import DEPLOY, ROOT


@pytest.mark.faults
def test_the_images_first_stage_builds(tmp_path: Path) -> None:
    """Its COPY and RUN lines in a fresh folder; packages come from where pip finds them here."""
    stage = (DEPLOY / "containers" / "Containerfile").read_text().partition("FROM")[2].partition("FROM")[0]
    made = tmp_path / "opt"
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_DIR"}  # pip verifies its index
    for verb, rest in re.findall(r"^(COPY|RUN) (.*)$", stage, re.MULTILINE):
        if verb == "COPY":
            *sources, target = rest.split()
            for source in sources:
                into = tmp_path / target / source if target.endswith("/") else tmp_path / target
                (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, into)
        else:
            command = rest.replace("/opt/gridfleet", str(made)).replace("python -m", f"{sys.executable} -m")
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr[-2000:]
    version = subprocess.run([made / "bin" / "gridfleet", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert version.returncode == 0, version.stderr
    assert "serve" in version.stdout
