"""Coded errors of device templates."""

from gridfleet.kernel.errors import CodedError

__all__ = ["TemplateExists", "TemplateNotFound"]


class TemplateNotFound(CodedError):
    """No such template."""

    code = "DEVICE_TEMPLATE_NOT_FOUND"
    message = "There is no such device template."


class TemplateExists(CodedError):
    """(name, version) is taken."""

    code = "CONFLICT"
    message = "A device template of this name and version exists."
