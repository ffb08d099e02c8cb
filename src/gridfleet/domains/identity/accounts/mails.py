"""Mails to users about their accounts."""

from gridfleet.kernel.mail.content import MailAction, MailContent

__all__ = ["confirm_address", "email_change_requested", "email_changed", "password_changed", "reset_password"]


def confirm_address(name: str, token: str) -> MailContent:
    """Return the mail to the new address with the link that confirms it."""
    return MailContent(
        subject="Confirm your new e-mail address",
        paragraphs=(
            f"Hello {name},",
            "you asked us to use this address for your Gridfleet account. Confirm it within 24 hours, and you log in with it"
            " from then on. Until you do, nothing changes.",
        ),
        action=MailAction("Confirm this address", f"/account/confirm-email#token={token}"),
        reason="You received this mail because a user of Gridfleet entered your address. If it was not you,"
        " ignore it: without the link above nothing happens.",
    )


def email_change_requested(name: str, new_email: str) -> MailContent:
    """Return the mail that warns the old address of a requested change."""
    return MailContent(
        subject="Your e-mail address is about to change",
        paragraphs=(
            f"Hello {name},",
            f"your Gridfleet account will use {new_email} as soon as that address has been confirmed. You need not do"
            " anything.",
        ),
        reason="If it was not you, another person has your password. Log in and change it now, which also cancels the change"
        " of the address.",
    )


def email_changed(name: str, new_email: str) -> MailContent:
    """Return the mail that notifies the old address of a completed change."""
    return MailContent(
        subject="Your e-mail address has changed",
        paragraphs=(
            f"Hello {name},",
            f"your Gridfleet account now uses {new_email}. This address gets no more mails about it.",
        ),
        reason="If it was not you, contact the operator of this service at once.",
    )


def reset_password(name: str, token: str) -> MailContent:
    """Return the mail with the link to set a new password."""
    return MailContent(
        subject="Set a new password",
        paragraphs=(
            f"Hello {name},",
            "you asked for a new password for your Gridfleet account. The link below lets you set one. It works once, for"
            " one hour; afterwards you are logged out everywhere and log in with the new password.",
        ),
        action=MailAction("Set a new password", f"/account/reset-password#token={token}"),
        reason="You received this mail because it was requested at the login page. If it was not you, ignore it: your"
        " password stays what it is.",
    )


def password_changed(name: str) -> MailContent:
    """Return the mail about a changed password."""
    return MailContent(
        subject="Your password has changed",
        paragraphs=(
            f"Hello {name},",
            "the password of your Gridfleet account has just been changed, and every other session was ended.",
        ),
        reason="If it was not you, ask for a new password at the login page now.",
    )
