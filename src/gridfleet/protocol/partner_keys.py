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
    """What is told to partners, as the last part of queue and routing key."""

    TELEMETRY = "telemetry"
    STATUS = "status"
    COMMAND_ACK = "command-ack"
    ALERT = "alert"


class Order(StrEnum):
    """What a partner may ask for, by its routing key without the slug."""

    SETPOINT = "command.site-setpoint"
    DEVICE = "command.device"
    MODE = "command.mode"
    SCHEDULE_SET = "schedule.set"
    SCHEDULE_CANCEL = "schedule.cancel"
    CONSTRAINTS = "config.constraints"
    FALLBACK = "config.fallback"

    @property
    def command_type(self) -> CommandType:
        """The kind of command that it becomes; a mode order may turn out to be an EMERGENCY."""
        return _RULES[self][0]

    @property
    def scope(self) -> str:
        """The scope that a key needs for it."""
        return _RULES[self][1]

    @property
    def signed(self) -> bool:
        """Whether it counts only with a signature."""
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
    """A routing key taken apart; `device` is the external id at its end, if there is one."""

    order: Order
    device: str | None = None


def parse_inbound(slug: str, routing_key: str) -> InboundKey | None:
    """What a message with this key asks of the organisation `slug`; None when it is no order, or another's."""
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
    """The key that events of a kind are published with."""
    return f"{slug}.event.{kind}"


def event_queue(slug: str, kind: EventKind) -> str:
    """The queue that a partner consumes."""
    return f"{EXCHANGE}.{event_routing_key(slug, kind)}"
