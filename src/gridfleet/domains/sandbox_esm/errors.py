"""Coded errors of the sandbox ESM."""

from gridfleet.kernel.errors import CodedError

__all__ = ["ClientRefused", "SandboxPlantNotFound"]


class SandboxPlantNotFound(CodedError):
    """The plant does not exist, or belongs to another client."""

    code = "NOT_FOUND"
    message = "The sandbox has no such plant."


class ClientRefused(CodedError):
    """Credentials or token that are invalid or no longer valid."""

    code = "UNAUTHORIZED"
    message = "The client's credentials are not valid."
