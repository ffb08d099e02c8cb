"""Mails to invited users."""

from gridfleet.domains.organizations.models import RoleName
from gridfleet.kernel.mail.content import MailAction, MailContent

__all__ = ["invitation"]

_ROLES = {
    RoleName.ORG_ADMIN: "as an administrator, who decides about plants, people and keys",
    RoleName.OPERATOR: "as an operator, who runs the plants",
    RoleName.VIEWER: "as a viewer, who sees plants and their data",
}


def invitation(organization: str, inviter: str, role: RoleName, token: str, *, has_account: bool) -> MailContent:
    """Return the mail that invites an address to join an organisation."""
    next_step = (
        "Accept, and the organisation is yours to choose the next time you log in."
        if has_account
        else "Accept, then choose a name and a password, and you are in."
    )
    return MailContent(
        subject=f"{inviter} invites you to {organization}",
        paragraphs=(
            "Hello,",
            f"{inviter} invites you to join {organization} on Gridfleet {_ROLES[role]}.",
            f"{next_step} The invitation is valid for seven days.",
        ),
        action=MailAction("Accept the invitation", f"/account/invitation#token={token}"),
        reason=f"You got this mail because {inviter} entered your address. If you do not know what it is about, ignore it.",
    )
