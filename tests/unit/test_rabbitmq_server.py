"""Which RabbitMQ a private node runs."""

from pathlib import Path

import pytest

from gridfleet.local.broker.installation import PrivateBrokerError, find_installation


def test_the_server_that_the_environment_names_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "rabbitmq-server"
    monkeypatch.setenv("RABBITMQ_SERVER", str(script))
    with pytest.raises(PrivateBrokerError, match=f"RABBITMQ_SERVER: there is no file {script}"):
        find_installation()
    script.touch()
    assert find_installation().server == script
