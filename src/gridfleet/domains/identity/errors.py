"""Refusals of logins, sessions and accounts."""

from gridfleet.kernel.errors import CodedError, NotFound, Unauthorized, ValidationFailed

__all__ = [
    "AccountLocked",
    "EmailTaken",
    "InvalidCredentials",
    "RefreshTokenInvalid",
    "RefreshTokenMalformed",
    "SessionNotFound",
    "TokenDead",
    "UserNotFound",
    "WrongPassword",
]


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


class WrongPassword(Unauthorized):
    """The caller is logged in but did not give the current password."""

    message = "The current password is missing or wrong."


class EmailTaken(CodedError):
    """Another account has this e-mail."""

    code = "EMAIL_ALREADY_REGISTERED"
    message = "An account with this e-mail exists already."


class TokenDead(ValidationFailed):
    """The token of a mail is unknown, expired, used, or was replaced by a newer one."""

    message = "This link does not count any more. Ask for a new one."

    def __init__(self) -> None:
        super().__init__(details=["token: is unknown, expired or used"])


class UserNotFound(NotFound):
    """There is no such user."""

    message = "There is no such user."


class SessionNotFound(NotFound):
    """The caller has no such session."""

    message = "You have no such session."
