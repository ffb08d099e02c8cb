"""Refusals of logins and sessions."""

from gridfleet.kernel.errors import CodedError

__all__ = ["AccountLocked", "InvalidCredentials", "RefreshTokenInvalid", "RefreshTokenMalformed"]


class InvalidCredentials(CodedError):
    """Wrong password or no such account: nobody shall learn which."""

    code = "INVALID_CREDENTIALS"
    message = "The e-mail or the password is wrong."


class AccountLocked(CodedError):
    """Too many failed logins lately."""

    code = "ACCOUNT_LOCKED"
    message = "Too many failed logins. Try again in 15 minutes."


class RefreshTokenInvalid(CodedError):
    """The refresh token is unknown, expired, used before, or of a session that ended."""

    code = "REFRESH_TOKEN_INVALID"
    message = "The session cannot be refreshed. Log in again."


class RefreshTokenMalformed(RefreshTokenInvalid):
    """There is no refresh token, or it does not look like one."""

    @property
    def status(self) -> int:
        """Bad Request, unlike a token that merely does not count."""
        return 400
