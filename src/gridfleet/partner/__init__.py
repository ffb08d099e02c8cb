"""The client for a trading partner's software: orders out, events in.

    async with Partner(address, signing_key=signing_key, authority=ca_pem) as partner:
        order = await partner.order(Order.SETPOINT, site_id, powerKw=-20, durationSeconds=900)
        ack = await partner.wait_for(order, "APPLIED", "REJECTED", "FAILED", "EXPIRED")

Imports nothing of the service but `gridfleet.protocol`.
"""

from gridfleet.partner.client import Event, LoginRefused, OrderRefused, Partner
from gridfleet.protocol.partner_keys import EventKind, Order

__all__ = ["Event", "EventKind", "LoginRefused", "Order", "OrderRefused", "Partner"]
