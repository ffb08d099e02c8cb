"""Errors on the plant's side, as types that a program can distinguish."""

from enum import StrEnum

__all__ = [
    "CommandRefusal",
    "CommandRefused",
    "CommandRejected",
    "ConnectFailed",
    "NotAuthorized",
    "PackageError",
    "PlantClientError",
    "QueueError",
    "QueueOverflow",
    "SnapshotRefused",
    "TokenRefused",
    "TokenUnavailable",
]


class PlantClientError(Exception):
    """Base of every error that this package raises or reports."""


class PackageError(PlantClientError):
    """The provisioning package cannot be read or lacks what its authentication method needs."""


class QueueError(PlantClientError):
    """The queue file cannot be used.

    Another process has it open, it holds messages of another plant, it is not a queue, or the disk is full.
    """


class QueueOverflow(PlantClientError):
    """The queue reached its limit; the `dropped` oldest messages were deleted to store newer ones."""

    def __init__(self, dropped: int) -> None:
        super().__init__(f"the queue is full: gave up the {dropped} oldest messages")
        self.dropped = dropped


class SnapshotRefused(PlantClientError):
    """The service would refuse the snapshot, so it was not stored.

    It is too large, has too many devices or fields, or has a value that is no number, boolean or null.
    """


class ConnectFailed(PlantClientError):
    """The broker was not reached, or the connection broke. The client retries."""


class NotAuthorized(ConnectFailed):
    """The broker, or the service that issues tokens, refused this plant's credentials `refusals` times in a row."""

    def __init__(self, reason: str, refusals: int) -> None:
        super().__init__(f"the service refused the credentials {refusals} times in a row: {reason}")
        self.refusals = refusals


class TokenUnavailable(ConnectFailed):
    """The token provider failed; its error is the cause."""


class TokenRefused(TokenUnavailable):
    """The service refused to give this plant a token. The client reports it as `NotAuthorized`, as a refused login."""


class CommandRefusal(StrEnum):
    """Reason why a message on the commands topic was not executed."""

    MALFORMED = "MALFORMED"
    SIGNATURE_INVALID = "SIGNATURE_INVALID"
    TIMESTAMP_OUT_OF_WINDOW = "TIMESTAMP_OUT_OF_WINDOW"


class CommandRefused(PlantClientError):
    """A message on the commands topic failed verification. It is neither executed nor acknowledged.

    Attributes:
        reason: Which verification failed.
    """

    def __init__(self, reason: CommandRefusal, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class CommandRejected(PlantClientError):
    """Raised by a command handler that refuses a command; the service receives `code` and `message`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
