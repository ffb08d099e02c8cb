"""Location and version of the RabbitMQ installation on this machine."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Installation", "PrivateBrokerError", "find_installation"]

_SERVERS: Final = (
    # The scripts behind the wrappers in /usr/sbin. The wrappers switch to the system's `rabbitmq` user and home.
    "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server",
    "/opt/rabbitmq*/sbin/rabbitmq-server",
    "/opt/homebrew/opt/rabbitmq/sbin/rabbitmq-server",
    "/usr/local/opt/rabbitmq/sbin/rabbitmq-server",
    "/usr/local/lib/rabbitmq*/sbin/rabbitmq-server",
)


class PrivateBrokerError(RuntimeError):
    """The node cannot be prepared or does not start."""


@dataclass(frozen=True, slots=True)
class Installation:
    """A RabbitMQ installation, identified by its `rabbitmq-server` script."""

    server: Path

    @property
    def plugins(self) -> Path:
        """The folder of the plugins that are part of the installation."""
        return self.server.resolve().parent.parent / "plugins"

    @property
    def version(self) -> str | None:
        """The version, such as `4.0.5`; None if the plugins do not contain it."""
        found = (re.fullmatch(r"rabbit-(\d+\.\d+\.\d+.*?)(\.ez)?", path.name) for path in self.plugins.glob("rabbit-*"))
        return next((match[1] for match in found if match), None)


def find_installation() -> Installation:
    """Return the installation whose server RABBITMQ_SERVER names, else one in the usual places.

    Raises:
        PrivateBrokerError: There is none; the text names the package to install.
    """
    if named := os.environ.get("RABBITMQ_SERVER"):
        if not Path(named).is_file():
            raise PrivateBrokerError(f"RABBITMQ_SERVER: there is no file {named}")
        return Installation(Path(named))
    for pattern in _SERVERS:
        for found in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True):
            return Installation(found)
    raise PrivateBrokerError(
        "RabbitMQ is not installed: install the package rabbitmq-server (apt-get, dnf) or rabbitmq (brew), "
        "or point GRIDFLEET_BROKER_URL and GRIDFLEET_BROKER_MANAGEMENT_URL to a running one"
    )
