"""Errors of logins, sessions and accounts."""

from gridfleet.kernel.errors import CodedError, Forbidden, NotFound, Unauthorized, ValidationFailed

__all__ = [
    "AccountDisabled",
    "AccountLocked",
    "EmailTaken",
    "InvalidCredentials",
    "LastSuperAdmin",
    "RefreshTokenInvalid",
    "RefreshTokenMalformed",
    "SessionNotFound",
    "TokenDead",
    "UserNotFound",
    "WrongPassword",
]


class InvalidCredentials(CodedError):
    """The password is wrong or there is no such account. The response is the same in both cases."""

    code = "INVALID_CREDENTIALS"
    message = "The e-mail or the password is wrong."


class AccountLocked(CodedError):
    """Too many failed logins in the last minutes."""

    code = "ACCOUNT_LOCKED"
    message = "Too many failed logins. Try again in 15 minutes."


class AccountDisabled(AccountLocked):
    """A SuperAdmin has disabled the account. The response to a wrong password does not show it."""

    message = "The account is disabled. Ask an administrator of the service to enable it."


class LastSuperAdmin(Forbidden):
    """The account is the only SuperAdmin's that is enabled: no other could enable it again."""

    message = "The last SuperAdmin cannot be disabled."


class RefreshTokenInvalid(CodedError):
    """The refresh token is unknown, expired, used before, or of a session that ended."""

    code = "REFRESH_TOKEN_INVALID"
    message = "The session cannot be refreshed. Log in again."


class RefreshTokenMalformed(RefreshTokenInvalid):
    """There is no refresh token, or its form is wrong."""

    @property
    def status(self) -> int:
        """Bad Request, unlike a token that is no longer valid."""
        return 400


class WrongPassword(Unauthorized):
    """The caller is logged in but did not give the current password."""

    message = "The current password is missing or wrong."


class EmailTaken(CodedError):
    """Another account has this e-mail address."""

    code = "EMAIL_ALREADY_REGISTERED"
    message = "An account with this e-mail exists already."


class TokenDead(ValidationFailed):
    """The token of a mail is unknown, expired, used, or was replaced by a newer one."""

    message = "This link is no longer valid. Request a new one."

    def __init__(self) -> None:
        super().__init__(details=["token: is unknown, expired or used"])


class UserNotFound(NotFound):
    """There is no such user."""

    message = "There is no such user."


class SessionNotFound(NotFound):
    """The caller has no such session."""

    message = "You have no such session."
