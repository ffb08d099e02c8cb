"""Data of RabbitMQ before 3.13, which 4.0 and newer cannot read: refused before the node ends with an error of Erlang."""

from pathlib import Path

import pytest

from gridfleet.local.broker.private_node import PrivateBroker, PrivateBrokerError
from gridfleet.local.secrets import ensure_local_secrets
from support.servers.free_ports import settings_at

OLD_FLAGS = "[implicit_default_bindings,quorum_queue,\n user_limits,virtual_host_metadata].\n"
FLAGS = "[implicit_default_bindings,message_containers,\n quorum_queue,user_limits,virtual_host_metadata].\n"


def install(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Select an installation of this version, which has an archive for each application and no programs."""
    script = folder / "sbin" / "rabbitmq-server"
    script.parent.mkdir(parents=True)
    script.touch()
    (folder / "plugins").mkdir()
    (folder / "plugins" / f"rabbit-{version}.ez").touch()
    monkeypatch.setenv("RABBITMQ_SERVER", str(script))


def home_with_data(home: Path, flags: str, version: str | None) -> Path:
    """Create a home whose node has data, and return its `broker` folder."""
    ensure_local_secrets(home)
    broker = home / "broker"
    (broker / "data" / "gridfleet@localhost").mkdir(parents=True)
    (broker / "data" / "gridfleet@localhost-feature_flags").write_text(flags)
    (broker / "path").write_text(f"{broker}\n")
    if version:
        (broker / "version").write_text(f"{version}\n")
    return broker


def content(folder: Path) -> dict[Path, str]:
    return {path: path.read_text() if path.is_file() else "" for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("flags", "version", "named"),
    [(OLD_FLAGS, "3.10.8", "3.10.8"), (OLD_FLAGS, "3.13.7", "3.13.7"), (OLD_FLAGS, None, "before 3.13")],
    ids=["old version", "flags not enabled", "unknown version"],
)
def test_data_that_the_installed_version_cannot_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, version: str | None, named: str
) -> None:
    install(tmp_path / "installed", "4.0.5", monkeypatch)
    broker = home_with_data(tmp_path / "home", flags, version)
    before = content(broker)

    with pytest.raises(PrivateBrokerError) as refused:
        PrivateBroker(settings_at(tmp_path / "home")).prepare()

    assert str(refused.value) == (
        f"{broker}/data was used by RabbitMQ {named}, and the installed RabbitMQ 4.0.5 cannot read it:"
        " move this folder away, which loses the messages in it (docs/upgrade.md, From Debian 12 to Debian 13)"
    )
    assert content(broker) == before


@pytest.mark.parametrize(
    ("flags", "version", "installed"),
    [
        (OLD_FLAGS, "3.10.8", "3.10.8"),
        (OLD_FLAGS, None, "3.13.7"),
        (FLAGS, "3.13.7", "4.0.5"),
        (FLAGS, None, "4.0.5"),
        (OLD_FLAGS, "4.0.5", "5.0.0"),
        (None, "3.10.8", "4.0.5"),
    ],
    ids=["same version", "before 4.0", "flags enabled", "flags enabled, unknown version", "removed flag", "moved away"],
)
def test_other_data_are_accepted_and_their_version_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str | None, version: str | None, installed: str
) -> None:
    install(tmp_path / "installed", installed, monkeypatch)
    broker = home_with_data(tmp_path / "home", flags or "", version)
    if flags is None:
        (broker / "data").rename(broker / "data-3.10")

    PrivateBroker(settings_at(tmp_path / "home")).prepare()

    assert (broker / "version").read_text() == f"{installed}\n"
