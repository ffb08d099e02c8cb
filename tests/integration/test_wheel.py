"""The wheel, as it is installed where there is no Node."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SITE = "gridfleet/api/console/site/"


def test_the_wheel_has_the_whole_console(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
    ]
    subprocess.run([*command, str(ROOT)], check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = {name.removeprefix(SITE) for name in archive.namelist() if name.startswith(SITE)}
        page = archive.read(f"{SITE}index.html").decode()
        scripts = "".join(archive.read(SITE + file).decode() for file in files if file.endswith(".js"))
    named = set(re.findall(r'"/console/([^"]+)"', page)) | set(re.findall(r"\bassets/[\w.-]+", scripts))
    assert len(named) > 50
    assert named <= files
