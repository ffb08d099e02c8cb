"""The client library for a trading partner's software: send commands, receive events.

    async with Partner(address, signing_key=signing_key, authority=ca_pem) as partner:
        order = await partner.order(Order.SETPOINT, site_id, powerKw=-20, durationSeconds=900)
        ack = await partner.wait_for(order, "APPLIED", "REJECTED", "FAILED", "EXPIRED")

The only package of the service that it imports is `gridfleet.protocol`.
"""

from gridfleet.protocol.partner_routes import EventKind, Order
from gridfleet.sdk.partner.client import Event, LoginRefused, OrderRefused, Partner

__all__ = ["Event", "EventKind", "LoginRefused", "Order", "OrderRefused", "Partner"]
