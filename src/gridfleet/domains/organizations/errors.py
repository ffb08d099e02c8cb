"""Errors about organisations."""

from gridfleet.kernel.errors import CodedError, Forbidden

__all__ = [
    "AlreadyMember",
    "InvitationAccepted",
    "InvitationExpired",
    "InvitationNotFound",
    "InvitationNotRevocable",
    "InvitationPending",
    "InvitationTokenMissing",
    "LastAdmin",
    "MemberNotFound",
    "MembershipRequired",
    "OrganizationInUse",
    "OrganizationNotFound",
    "SlugInUse",
    "SlugTaken",
]


class OrganizationNotFound(CodedError):
    """There is no such organisation."""

    code = "ORGANIZATION_NOT_FOUND"
    message = "There is no such organisation."


class SlugTaken(CodedError):
    """Another organisation has this slug."""

    code = "CONFLICT"
    message = "An organisation with this slug already exists."


class SlugInUse(CodedError):
    """API keys at the broker use the slug as their user name."""

    code = "CONFLICT"
    message = "The slug cannot change while API keys use it at the broker."


class OrganizationInUse(CodedError):
    """The organisation still has members, plants or keys, or its trading is enabled."""

    code = "CONFLICT"
    message = "The organisation still has members, plants or keys, or its trading is enabled."


class MembershipRequired(CodedError):
    """The caller is not a member of the organisation, or it does not exist. The response is the same in both cases."""

    code = "ORG_MEMBERSHIP_REQUIRED"
    message = "You are not a member of this organisation."


class MemberNotFound(CodedError):
    """The organisation has no member with this id."""

    code = "MEMBER_NOT_FOUND"
    message = "The organisation has no such member."


class LastAdmin(Forbidden):
    """The organisation must keep at least one ORG_ADMIN."""

    message = "The last ORG_ADMIN of an organisation can be removed or demoted by a SuperAdmin only."


class InvitationNotFound(CodedError):
    """There is no such invitation, or it was revoked."""

    code = "INVITATION_NOT_FOUND"
    message = "There is no such invitation."


class InvitationExpired(CodedError):
    """The invitation has expired."""

    code = "INVITATION_EXPIRED"
    message = "The invitation has expired. Ask for a new one."


class InvitationAccepted(CodedError):
    """The invitation was used."""

    code = "INVITATION_ALREADY_ACCEPTED"
    message = "The invitation has been accepted already."


class InvitationTokenMissing(CodedError):
    """The link was opened without its token."""

    code = "INVITATION_TOKEN_MISSING"
    message = "The invitation's token is missing."


class InvitationNotRevocable(CodedError):
    """The invitation was used, has expired or is revoked."""

    code = "BAD_REQUEST"
    message = "The invitation cannot be revoked: it has been used, has expired or is revoked already."


class InvitationPending(CodedError):
    """The address has a pending invitation."""

    code = "CONFLICT"
    message = "A pending invitation for this e-mail exists already."


class AlreadyMember(CodedError):
    """The address belongs to a member."""

    code = "CONFLICT"
    message = "A user with this e-mail address is a member already."
