"""Coded errors of commands."""

from gridfleet.kernel.errors import CodedError, NotFound

__all__ = ["ActionNotInTemplate", "CommandNotFound"]


class ActionNotInTemplate(CodedError):
    """The sub-device's template does not declare the action, or not with these parameters."""

    code = "COMMAND_ACTION_NOT_IN_TEMPLATE"
    message = "The device's template does not declare this action with these parameters."


class CommandNotFound(NotFound):
    """The organisation has no such command."""

    message = "There is no such command."
