"""The commands of `docs/device.md` do what the page says."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gridfleet.protocol import signature
from gridfleet.protocol.envelope import Envelope, Snapshot
from gridfleet.protocol.topics import Channel

GUIDE = (Path(__file__).parents[3] / "docs" / "device.md").read_text()


def example(name: str) -> str:
    found = re.search(rf"<!-- example: {name} -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


async def arrived(broker: Any, plant: Any) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while not (messages := await broker.received(plant.id, Channel.TELEMETRY)):
            await asyncio.sleep(0.1)
    msgspec.json.decode(messages[0].payload(), type=Snapshot)
    return json.loads(messages[0].payload())  # type: ignore[no-any-return]


@pytest.fixture
def folder(plant: Any, tmp_path: Path) -> Path:
    (tmp_path / "plant.json").write_bytes(msgspec.json.encode(plant.package(caCert=plant.authority.certificate_pem)))
    return tmp_path


@pytest.mark.parametrize("name", ["sdk", "paho"])
async def test_the_python_examples_deliver(broker: Any, plant: Any, folder: Path, name: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", example(name)], cwd=folder)
    try:
        payload = await arrived(broker, plant)
    finally:
        child.terminate()
        child.wait(10)
    assert payload["devices"][0]["fields"]["active_power"] == 4.2


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("openssl")), reason="needs jq and openssl")
def test_the_shell_example_signs_what_it_sends(plant: Any, folder: Path) -> None:
    client = folder / "mosquitto_pub"  # notes its arguments: what is sent is of interest here, not the client
    client.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > arguments\n')
    client.chmod(0o755)

    subprocess.run(
        ["sh", "-eu", "-c", example("shell")],
        cwd=folder,
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        timeout=20,
        check=True,
    )

    arguments = (folder / "arguments").read_text().splitlines()
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    envelope = msgspec.json.decode(given["-m"], type=Envelope)
    key = plant.package().signing_key
    assert signature.verify(key, envelope.sig, given["-t"], envelope.id, envelope.sent_at, bytes(envelope.payload))
    assert abs(envelope.sent_at / 1000 - time.time()) < 60
    assert (given["-u"], given["-P"], given["-i"]) == (plant.id, plant.password, plant.id)
    assert (folder / "ca.pem").read_text().strip() == plant.authority.certificate_pem.strip()


def test_a_plants_computer_needs_what_the_page_says() -> None:
    """The page installs these beside the wheel and nothing else: the clients import nothing that the service alone needs."""
    program = "import sys, gridfleet.sdk.plant, gridfleet.sdk.partner\nprint(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    needed = {re.split(r"[^a-z0-9-]", line.lower())[0].replace("-", "_") for line in requires("gridfleet") or ()}

    assert "pip install 'aiomqtt>=2.5,<3' msgspec" in GUIDE
    assert needed > {"psycopg", "granian", "cryptography", "httpx"}
    assert needed & set(done.stdout.split()) == {"aiomqtt", "aiormq", "msgspec"}
