"""Coded errors of the sandbox ESM."""

from gridfleet.kernel.errors import CodedError

__all__ = ["ClientRefused", "SandboxPlantNotFound"]


class SandboxPlantNotFound(CodedError):
    """Absent, or another client's."""

    code = "NOT_FOUND"
    message = "The sandbox has no such plant."


class ClientRefused(CodedError):
    """Credentials or token that do not count, or not any more."""

    code = "UNAUTHORIZED"
    message = "The client's credentials do not count."
