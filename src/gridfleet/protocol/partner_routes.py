"""Routes of partners' messages: exchange, queues and routing keys, and the scope that each command needs.

`FAMILIES` and `EVENTS` are the only list of routes. The rights and bindings at the broker, the parser of routing keys, the list
of queues in the API and the table in the docs are derived from them. All routing keys begin with the organisation's slug.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple

from gridfleet.protocol.envelope import CommandType

__all__ = [
    "DROPPED_HEADER",
    "EVENTS",
    "EXCHANGE",
    "FAMILIES",
    "LEGACY_VHOST",
    "SIGNATURE_HEADER",
    "TIMESTAMP_HEADER",
    "CommandKind",
    "EventKind",
    "Family",
    "InboundKey",
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


EVENTS: Final = {
    EventKind.TELEMETRY: "Decoded values of the sites, as they are stored.",
    EventKind.STATUS: "The status of a site changed.",
    EventKind.COMMAND_ACK: "The status of a command: accepted, rejected, applied, failed or expired.",
    EventKind.ALERT: "An alert of a site was raised, acknowledged or resolved.",
}
"""Every kind of event with its description for partners."""


class CommandKind(StrEnum):
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
        return _FAMILY[self].commands[self]

    @property
    def scope(self) -> str:
        """The scope that the API key needs."""
        return _FAMILY[self].scope

    @property
    def signed(self) -> bool:
        """Whether the command needs a signature."""
        return _FAMILY[self].signed


class Family(NamedTuple):
    """The routing keys that one scope allows.

    Attributes:
        pattern: What follows the slug, as in an AMQP binding: `*` is one word, `#` at the end at most one word.
        commands: The kinds of command in the family, with the types of the resulting commands.
        scope: The scope that the API key needs.
        signed: Whether the commands need a signature.
        description: For partners.
    """

    pattern: str
    commands: dict[CommandKind, CommandType]
    scope: str
    signed: bool
    description: str

    @property
    def bindings(self) -> tuple[str, ...]:
        """The AMQP bindings that match these routing keys and no others."""
        key = self.pattern.removesuffix(".#")
        return (key,) if key == self.pattern else (key, f"{key}.*")

    def matches(self, key: str) -> bool:
        """Return whether a routing key without its slug belongs to the family."""
        return any(re.fullmatch(re.escape(one).replace(r"\*", "[^.]+"), key) for one in self.bindings)


FAMILIES: Final = (
    Family(
        "command.site-setpoint",
        {CommandKind.SETPOINT: CommandType.SITE_SETPOINT},
        "vcp:write:setpoint",
        False,
        "Power of a site.",
    ),
    Family(
        "command.device.#",
        {CommandKind.DEVICE: CommandType.DEVICE_COMMAND},
        "vcp:write:device-command",
        True,
        "An action of one device; its external id may end the key.",
    ),
    Family(
        "command.mode",
        {CommandKind.MODE: CommandType.MODE_CHANGE},
        "vcp:write:mode",
        True,
        "Operating mode, emergency stop included.",
    ),
    Family(
        "schedule.*",
        {CommandKind.SCHEDULE_SET: CommandType.SCHEDULE, CommandKind.SCHEDULE_CANCEL: CommandType.SCHEDULE},
        "vcp:write:schedule",
        True,
        "`schedule.set` and `schedule.cancel`.",
    ),
    Family(
        "config.*",
        {CommandKind.CONSTRAINTS: CommandType.CONFIG, CommandKind.FALLBACK: CommandType.CONFIG},
        "vcp:write:config",
        False,
        "`config.constraints` and `config.fallback`.",
    ),
)
"""Every family of partner commands."""

_FAMILY: Final = {kind: family for family in FAMILIES for kind in family.commands}


class InboundKey(NamedTuple):
    """A parsed routing key. `device` is the external id at its end, None if absent."""

    kind: CommandKind
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
    if head == CommandKind.DEVICE and dot and device:
        return InboundKey(CommandKind.DEVICE, device)
    try:
        return InboundKey(CommandKind(rest))
    except ValueError:
        return None


def event_routing_key(slug: str, kind: EventKind) -> str:
    """Return the routing key for events of a kind."""
    return f"{slug}.event.{kind}"


def event_queue(slug: str, kind: EventKind) -> str:
    """Return the queue from which a partner consumes events of a kind."""
    return f"{EXCHANGE}.{event_routing_key(slug, kind)}"
