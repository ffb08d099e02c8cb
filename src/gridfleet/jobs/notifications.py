"""Delivery of notifications through the configured channels."""

from gridfleet.domains.notifications.channels.email import EmailChannel
from gridfleet.domains.notifications.channels.push import ExpoPush
from gridfleet.domains.notifications.channels.sms import SmsChannel
from gridfleet.domains.notifications.delivery import NotificationWorker
from gridfleet.domains.notifications.models import Channel
from gridfleet.kernel.db import Database
from gridfleet.kernel.mail.delivery import open_delivery
from gridfleet.kernel.settings import Settings

__all__ = ["deliver_notifications"]


async def deliver_notifications(settings: Settings, database: Database) -> None:
    """Deliver queued notifications until cancelled."""
    sms_url, expo_token = settings.sms_url, settings.expo_access_token
    expo = ExpoPush(settings.expo_url, expo_token.get_secret_value() if expo_token else None)
    await NotificationWorker(
        database,
        {
            Channel.PUSH: expo,
            Channel.EMAIL: EmailChannel(open_delivery(settings), settings.base_url),
            Channel.SMS: SmsChannel(sms_url.get_secret_value() if sms_url else None),
        },
        expo,
    ).run()
