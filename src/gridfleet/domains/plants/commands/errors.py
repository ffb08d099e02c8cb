"""Coded errors of commands."""

from gridfleet.kernel.errors import CodedError

__all__ = ["ActionNotInTemplate"]


class ActionNotInTemplate(CodedError):
    """The sub-device's template does not declare the action, or not with these parameters."""

    code = "COMMAND_ACTION_NOT_IN_TEMPLATE"
    message = "The device's template does not declare this action with these parameters."
