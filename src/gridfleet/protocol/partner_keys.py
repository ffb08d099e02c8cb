"""Routing keys, exchange and queues of the partners' vhosts.

{slug}.command.site-setpoint          {slug}.event.telemetry
{slug}.command.device[.{externalId}]  {slug}.event.status
{slug}.command.mode                   {slug}.event.command-ack
{slug}.schedule.set | .cancel         {slug}.event.alert
{slug}.config.constraints | .fallback
"""

from enum import StrEnum
from typing import Final, NamedTuple

from gridfleet.protocol.envelope import CommandType

__all__ = [
    "DROPPED_HEADER",
    "EXCHANGE",
    "LEGACY_VHOST",
    "SIGNATURE_HEADER",
    "TIMESTAMP_HEADER",
    "EventKind",
    "InboundKey",
    "Order",
    "event_queue",
    "event_routing_key",
    "parse_inbound",
]

EXCHANGE: Final = "vcp"
LEGACY_VHOST: Final = "/"
"""The vhost that imported keys share; new keys have a vhost of their own."""

DROPPED_HEADER: Final = "x-vcp-dropped"
SIGNATURE_HEADER: Final = "x-vcp-signature"
TIMESTAMP_HEADER: Final = "x-vcp-timestamp"


class EventKind(StrEnum):
    """Kind of event, as the last part of its queue and routing key."""

    TELEMETRY = "telemetry"
    STATUS = "status"
    COMMAND_ACK = "command-ack"
    ALERT = "alert"


class Order(StrEnum):
    """Kind of partner command: its routing key without the slug."""

    SETPOINT = "command.site-setpoint"
    DEVICE = "command.device"
    MODE = "command.mode"
    SCHEDULE_SET = "schedule.set"
    SCHEDULE_CANCEL = "schedule.cancel"
    CONSTRAINTS = "config.constraints"
    FALLBACK = "config.fallback"

    @property
    def command_type(self) -> CommandType:
        """The type of the resulting command. A mode command can become an EMERGENCY."""
        return _RULES[self][0]

    @property
    def scope(self) -> str:
        """The scope that the API key needs."""
        return _RULES[self][1]

    @property
    def signed(self) -> bool:
        """Whether the command needs a signature."""
        return _RULES[self][2]


_RULES: Final[dict[Order, tuple[CommandType, str, bool]]] = {
    Order.SETPOINT: (CommandType.SITE_SETPOINT, "vcp:write:setpoint", False),
    Order.DEVICE: (CommandType.DEVICE_COMMAND, "vcp:write:device-command", True),
    Order.MODE: (CommandType.MODE_CHANGE, "vcp:write:mode", True),
    Order.SCHEDULE_SET: (CommandType.SCHEDULE, "vcp:write:schedule", True),
    Order.SCHEDULE_CANCEL: (CommandType.SCHEDULE, "vcp:write:schedule", True),
    Order.CONSTRAINTS: (CommandType.CONFIG, "vcp:write:config", False),
    Order.FALLBACK: (CommandType.CONFIG, "vcp:write:config", False),
}


class InboundKey(NamedTuple):
    """A parsed routing key. `device` is the external id at its end, None if absent."""

    order: Order
    device: str | None = None


def parse_inbound(slug: str, routing_key: str) -> InboundKey | None:
    """Parse the routing key of a message to the organisation `slug`.

    Returns:
        The parsed key; None if it is not the key of a partner command of this organisation.
    """
    start = f"{slug}."
    if not routing_key.startswith(start):
        return None
    rest = routing_key.removeprefix(start)
    head, dot, device = rest.rpartition(".")
    if head == Order.DEVICE and dot and device:
        return InboundKey(Order.DEVICE, device)
    try:
        return InboundKey(Order(rest))
    except ValueError:
        return None


def event_routing_key(slug: str, kind: EventKind) -> str:
    """Return the routing key for events of a kind."""
    return f"{slug}.event.{kind}"


def event_queue(slug: str, kind: EventKind) -> str:
    """Return the queue from which a partner consumes events of a kind."""
    return f"{EXCHANGE}.{event_routing_key(slug, kind)}"
