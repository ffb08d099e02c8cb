"""The service's own RabbitMQ plugins.

`gridfleet_bounds` limits what the broker would otherwise keep in memory without limit. `gridfleet_auth_http` is for RabbitMQ
4.0 only: it distinguishes logins by certificate from logins by password. Up to 3.13 and from 4.1 on, the broker's own HTTP
backend sends no password for a login by certificate.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gridfleet.local.broker.installation import PrivateBrokerError

__all__ = ["AUTH_PLUGIN", "BOUNDS_PLUGIN", "build_plugin", "needed_plugins", "needs_auth_plugin", "unusable_because"]

AUTH_PLUGIN: Final = "gridfleet_auth_http"
"""Name of the plugin, of its Erlang module, of the authentication backend, and of the tag of a node that uses it."""

BOUNDS_PLUGIN: Final = "gridfleet_bounds"

_SOURCE: Final = Path(__file__).parent
_COMPILE_SECONDS: Final = 60
_OLDEST: Final = (3, 10)


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
