"""The service's own RabbitMQ plugins.

`gridfleet_bounds` limits what the broker would otherwise keep in memory without limit. `gridfleet_auth_http` is for RabbitMQ
4.0 only: it distinguishes logins by certificate from logins by password. Up to 3.13 and from 4.1 on, the broker's own HTTP
backend sends no password for a login by certificate.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from gridfleet.local.broker.installation import PrivateBrokerError

__all__ = [
    "AUTH_PLUGIN",
    "BOUNDS_PLUGIN",
    "SESSIONS_BACKEND",
    "build_plugin",
    "link_applications",
    "needed_plugins",
    "needs_auth_plugin",
    "unusable_because",
]

AUTH_PLUGIN: Final = "gridfleet_auth_http"
"""Name of the plugin, of its Erlang module, of the authentication backend, and of the tag of a node that uses it."""

BOUNDS_PLUGIN: Final = "gridfleet_bounds"

SESSIONS_BACKEND: Final = "gridfleet_bounds_sessions"
"""Erlang module of the plugin that is an authorisation backend and limits the new sessions of a plant."""

_SOURCE: Final = Path(__file__).parent
_COMPILE_SECONDS: Final = 60
_OLDEST: Final = (3, 10)
_REQUIRED: Final = re.compile(r"\{(?:included_)?applications,\s*\[([^\]]*)\]")
"""Lists of other applications in the description of an Erlang application."""


def needs_auth_plugin(version: str | None) -> bool:
    """Return whether this version of RabbitMQ sends the text `none` as the password of a client with a certificate."""
    return version is not None and version.startswith("4.0.")


def needed_plugins(version: str | None) -> tuple[str, ...]:
    """Return the names of the plugins for a version of RabbitMQ."""
    return (BOUNDS_PLUGIN, AUTH_PLUGIN) if needs_auth_plugin(version) else (BOUNDS_PLUGIN,)


def unusable_because(overview: Mapping[str, Any]) -> str | None:
    """Return why the service cannot run on a RabbitMQ, and what to do; None if it can.

    Args:
        overview: The response of its management API to `/api/overview`.
    """
    version = str(overview["rabbitmq_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        return f"RabbitMQ {version} is too old: upgrade it to 3.10 or newer"
    if needs_auth_plugin(version) and AUTH_PLUGIN not in (overview.get("node_tags") or {}):
        return (
            f"RabbitMQ {version} without the plugin {AUTH_PLUGIN} refuses every plant with a certificate: install and enable it"
            " with rabbitmq-4.0.conf (docs/deployment.md, RabbitMQ 4.0), or run 3.13, 4.1 or newer"
        )
    return None


def build_plugin(name: str, plugins: Path) -> None:
    """Compile a plugin into a folder of plugins.

    Raises:
        PrivateBrokerError: The Erlang compiler is missing or fails; the text contains a remedy.
    """
    compiler = shutil.which("erlc")
    if compiler is None:
        raise PrivateBrokerError(
            "RabbitMQ needs the service's plugins, and the Erlang compiler erlc is missing: install erlang-base"
        )
    target = plugins / f"{name}-1" / "ebin"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_SOURCE / f"{name}.app", target / f"{name}.app")
    command = [compiler, "-o", str(target), *map(str, sorted(_SOURCE.glob(f"{name}*.erl")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
    if done.returncode != 0:
        raise PrivateBrokerError(f"{name} cannot be compiled: {done.stdout}{done.stderr}".strip())


def link_applications(names: Iterable[str], installed: Path, plugins: Path) -> None:
    """Replace all links in a folder of plugins by links to applications of an installation, and to those that they require.

    A node looks for each of its thousand modules in every application of the folder, and an installation has twice as many
    as needed: a start takes 6.6 instead of 11.3 seconds of processor time (RabbitMQ 3.10).

    Args:
        names: Applications, such as `rabbit`.
        installed: The installation's folder of plugins. If it has archives (`.ez`), all of them are linked.
        plugins: The folder to fill. It is created if it does not exist.
    """
    plugins.mkdir(parents=True, exist_ok=True)
    for path in plugins.iterdir():
        if path.is_symlink():
            path.unlink()
    found = {path.name.partition("-")[0]: path for path in installed.glob("*-*")}
    if any(path.suffix == ".ez" for path in found.values()):
        waiting, linked = [], set(found)
    else:
        waiting, linked = list(names), set()
    while waiting:
        name = waiting.pop()
        if name in found and name not in linked:
            linked.add(name)
            description = (found[name] / "ebin" / f"{name}.app").read_text()
            waiting += [one for required in _REQUIRED.findall(description) for one in re.findall(r"\w+", required)]
    for name in linked:
        (plugins / found[name].name).symlink_to(found[name])
