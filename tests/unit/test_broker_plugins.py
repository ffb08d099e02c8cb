"""Which RabbitMQ the service refuses to run on."""

from pathlib import Path

import pytest

from gridfleet.cli.doctor.broker import bounds_findings
from gridfleet.cli.doctor.models import Status
from gridfleet.local.broker.plugins import link_applications, needed_plugins, unusable_because


@pytest.mark.parametrize(
    "overview",
    [
        {"rabbitmq_version": "3.10.8"},
        {"rabbitmq_version": "3.13.7", "node_tags": []},
        {"rabbitmq_version": "4.0.5", "node_tags": {"gridfleet_auth_http": "1"}},
        {"rabbitmq_version": "4.1.0", "node_tags": {}},
        {"rabbitmq_version": "4.10.1+7.g1"},
    ],
)
def test_usable(overview: dict[str, object]) -> None:
    assert unusable_because(overview) is None


@pytest.mark.parametrize(
    ("overview", "words"),
    [
        ({"rabbitmq_version": "3.9.29"}, ["RabbitMQ 3.9.29", "3.10 or newer"]),
        ({"rabbitmq_version": "4.0.5"}, ["RabbitMQ 4.0.5", "gridfleet_auth_http", "docs/deployment.md", "4.1"]),
        ({"rabbitmq_version": "4.0.9", "node_tags": {"other": "1"}}, ["RabbitMQ 4.0.9", "gridfleet_auth_http"]),
        ({"rabbitmq_version": "4.0.9", "node_tags": []}, ["RabbitMQ 4.0.9", "gridfleet_auth_http"]),
    ],
)
def test_refused_in_one_line(overview: dict[str, object], words: list[str]) -> None:
    complaint = unusable_because(overview)
    assert complaint is not None
    assert "\n" not in complaint
    assert all(word in complaint for word in words)


def test_the_authentication_plugin_is_for_4_0_alone() -> None:
    assert needed_plugins("4.0.5") == ("gridfleet_bounds", "gridfleet_auth_http")
    for version in ("3.10.8", "3.13.7", "4.1.0", None):
        assert needed_plugins(version) == ("gridfleet_bounds",)


@pytest.mark.parametrize(
    ("overview", "statuses"),
    [
        ({"rabbitmq_version": "3.10.8"}, []),
        ({"node_tags": []}, [Status.WARN]),
        ({"node_tags": {"gridfleet_auth_http": "1"}}, [Status.WARN]),
        ({"node_tags": {"gridfleet_auth_http": "1", "gridfleet_bounds": "1"}}, [Status.OK]),
    ],
)
def test_the_doctor_names_a_missing_plugin_of_bounds(overview: dict[str, object], statuses: list[Status]) -> None:
    found = bounds_findings(overview)
    assert [one.status for one in found] == statuses
    assert all("gridfleet_bounds" in f"{one.found} {one.remedy}" for one in found)


def application(folder: Path, name: str, required: str) -> None:
    (folder / f"{name}-1.2" / "ebin").mkdir(parents=True)
    (folder / f"{name}-1.2" / "ebin" / f"{name}.app").write_text(f"{{application, '{name}', [{required}]}}.")


def test_only_what_a_node_needs_is_linked(tmp_path: Path) -> None:
    installed, plugins = tmp_path / "installed", tmp_path / "plugins"
    application(installed, "rabbit", "{applications, [kernel,stdlib,\n  ra, 'rabbit_common']}, {included_applications,[extra]}")
    for name in ("ra", "rabbit_common", "extra", "rabbitmq_stomp"):
        application(installed, name, "{applications,[]}")
    (plugins / "own-1").mkdir(parents=True)
    (plugins / "rabbit-1.1").symlink_to(tmp_path / "former")

    link_applications(["rabbit"], installed, plugins)

    assert {path.name for path in plugins.iterdir()} == {"own-1", "rabbit-1.2", "ra-1.2", "rabbit_common-1.2", "extra-1.2"}
    assert (plugins / "rabbit-1.2" / "ebin" / "rabbit.app").exists()


def test_all_archives_of_an_installation_are_linked(tmp_path: Path) -> None:
    installed, plugins = tmp_path / "installed", tmp_path / "plugins"
    application(installed, "rabbit", "{applications, []}")
    (installed / "rabbitmq_stomp-1.2.ez").touch()

    link_applications(["rabbit"], installed, plugins)

    assert {path.name for path in plugins.iterdir()} == {"rabbit-1.2", "rabbitmq_stomp-1.2.ez"}
