"""Coded errors of device templates."""

from gridfleet.kernel.errors import CodedError

__all__ = ["TemplateExists", "TemplateInUse", "TemplateIsSystem", "TemplateNotFound"]


class TemplateNotFound(CodedError):
    """The template does not exist."""

    code = "DEVICE_TEMPLATE_NOT_FOUND"
    message = "There is no such device template."


class TemplateExists(CodedError):
    """The name and version are taken."""

    code = "CONFLICT"
    message = "A device template of this name and version exists."


class TemplateIsSystem(CodedError):
    """System templates are read-only."""

    code = "DEVICE_TEMPLATE_SYSTEM_READONLY"
    message = "A system template cannot be changed or deleted."


class TemplateInUse(CodedError):
    """Sub-devices or plants use the template."""

    code = "DEVICE_TEMPLATE_IN_USE"
    message = "The template is in use by sub-devices or plants."
