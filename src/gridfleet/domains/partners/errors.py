"""Errors about partner keys."""

from gridfleet.kernel.errors import CodedError

__all__ = ["ApiKeyNotFound", "SelfTestFailed"]


class ApiKeyNotFound(CodedError):
    """The organisation has no such key."""

    code = "API_KEY_NOT_FOUND"
    message = "There is no such API key."


class SelfTestFailed(CodedError):
    """The broker refused the new key. Nothing of it is kept."""

    code = "INTERNAL_SERVER_ERROR"
    message = "The broker did not accept a login with the new key, so the key was not created."
