"""The version of RabbitMQ that used the data of the private node last."""

from pathlib import Path
from typing import Final

from gridfleet.kernel.private_files import write_private
from gridfleet.local.broker.configuration import NODE_NAME
from gridfleet.local.broker.installation import PrivateBrokerError

__all__ = ["accept_data"]

_REQUIRES_FLAGS: Final = (4, 0)
_REQUIRED_FLAG: Final = "message_containers"
"""Feature flag of 3.13, which 4.0 requires. With data of earlier versions, a node of 4.0 ends when it starts."""


def accept_data(folder: Path, version: str | None) -> None:
    """Store the installed version in `folder/version`, for the next start. Does not change the data in `folder/data`.

    Args:
        folder: The node's folder.
        version: The version of the installed RabbitMQ; None if it is not known.

    Raises:
        PrivateBrokerError: The installed RabbitMQ is 4.0 or newer, and cannot read the data of the former version.
    """
    path, data = folder / "version", folder / "data"
    former = path.read_text().strip() if path.exists() else None
    if version is None:
        path.unlink(missing_ok=True)
        return
    if _numbers(version) >= _REQUIRES_FLAGS and _lacks_flag(data, former):
        raise PrivateBrokerError(
            f"{data} was used by RabbitMQ {former or 'before 3.13'}, and the installed RabbitMQ {version} cannot read it:"
            " move this folder away, which loses the messages in it (docs/upgrade.md, From Debian 12 to Debian 13)"
        )
    write_private(path, f"{version}\n")


def _lacks_flag(data: Path, former: str | None) -> bool:
    """Return whether the flag is not enabled in the data. 4.0 and newer have enabled it, even if a later one removes it."""
    flags = data / f"{NODE_NAME}-feature_flags"
    if former is not None and _numbers(former) >= _REQUIRES_FLAGS:
        return False
    return flags.exists() and _REQUIRED_FLAG not in flags.read_text()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
