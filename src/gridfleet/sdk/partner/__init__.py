"""The client library for a trading partner's software: send commands, receive events.

    async with Partner(address, signing_key=signing_key, authority=ca_pem) as partner:
        message_id = await partner.send(CommandKind.SETPOINT, site_id, powerKw=-20, durationSeconds=900)
        ack = await partner.wait_for(message_id, "APPLIED", "REJECTED", "FAILED", "EXPIRED")

The only package of the service that it imports is `gridfleet.protocol`.
"""

from gridfleet.protocol.partner_routes import CommandKind, EventKind
from gridfleet.sdk.partner.client import CommandRefused, Event, LoginRefused, Partner

__all__ = ["CommandKind", "CommandRefused", "Event", "EventKind", "LoginRefused", "Partner"]
