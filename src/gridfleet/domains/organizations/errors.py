"""Refusals about organisations."""

from gridfleet.kernel.errors import CodedError

__all__ = ["OrganizationNotFound", "SlugTaken"]


class OrganizationNotFound(CodedError):
    """There is no such organisation."""

    code = "ORGANIZATION_NOT_FOUND"
    message = "There is no such organisation."


class SlugTaken(CodedError):
    """Another organisation has this slug."""

    code = "CONFLICT"
    message = "An organisation with this slug already exists."
