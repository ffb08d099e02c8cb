"""The RabbitMQ plugin that RabbitMQ 4.0 needs to tell a certificate's login from a password's.

Other versions need none: up to 3.13 and from 4.1 on, the broker's own HTTP backend leaves the password of a certificate's
login out.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from gridfleet.kernel.broker.installation import PrivateBrokerError

__all__ = ["AUTH_PLUGIN", "build_auth_plugin", "needs_auth_plugin"]

AUTH_PLUGIN: Final = "gridfleet_auth_http"
"""Name of the plugin, of its Erlang module and of the authentication backend."""

_SOURCE: Final = Path(__file__).parent
_COMPILE_SECONDS: Final = 60


def needs_auth_plugin(version: str | None) -> bool:
    """Return whether this version of RabbitMQ sends the text `none` as the password of a client with a certificate."""
    return version is not None and version.startswith("4.0.")


def build_auth_plugin(plugins: Path) -> None:
    """Compile the plugin into a folder of plugins.

    Raises:
        PrivateBrokerError: The Erlang compiler is missing or fails; the text says what to do.
    """
    compiler = shutil.which("erlc")
    if compiler is None:
        raise PrivateBrokerError(
            "RabbitMQ 4.0 needs a plugin of ours, and the Erlang compiler erlc is missing: install erlang-base"
        )
    target = plugins / f"{AUTH_PLUGIN}-1" / "ebin"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_SOURCE / f"{AUTH_PLUGIN}.app", target / f"{AUTH_PLUGIN}.app")
    command = [compiler, "-o", str(target), str(_SOURCE / f"{AUTH_PLUGIN}.erl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
    if done.returncode != 0:
        raise PrivateBrokerError(f"{AUTH_PLUGIN} cannot be compiled: {done.stdout}{done.stderr}".strip())
