"""Scopes of API keys (spec, Authentication 9)."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from gridfleet.protocol.partner_routes import LEGACY_VHOST

__all__ = ["AMQP_SCOPES", "LEGACY_VHOST", "WRITE_SCOPES", "Scope", "expand_amqp"]


class Scope(StrEnum):
    """A permission of an API key."""

    PLANTS_READ = "plants:read"
    PLANTS_WRITE = "plants:write"
    TELEMETRY_READ = "telemetry:read"
    TELEMETRY_WRITE = "telemetry:write"
    COMMANDS_READ = "commands:read"
    COMMANDS_EXECUTE = "commands:execute"
    CONFIG_READ = "config:read"
    CONFIG_WRITE = "config:write"
    TRADING_READ = "trading:read"
    TRADING_WRITE = "trading:write"
    TRADING_CONNECT = "trading:connect"
    VCP_CONNECT = "vcp:connect"
    VCP_READ = "vcp:read"
    VCP_WRITE_SETPOINT = "vcp:write:setpoint"
    VCP_WRITE_DEVICE_COMMAND = "vcp:write:device-command"
    VCP_WRITE_SCHEDULE = "vcp:write:schedule"
    VCP_WRITE_MODE = "vcp:write:mode"
    VCP_WRITE_CONFIG = "vcp:write:config"


WRITE_SCOPES: Final = frozenset(scope for scope in Scope if scope.startswith("vcp:write:"))
"""Scopes that allow publishing to the exchange `vcp`. A key with one of them has a signing key."""

AMQP_SCOPES: Final = frozenset({Scope.VCP_CONNECT, Scope.TRADING_CONNECT}) | WRITE_SCOPES
"""Scopes of which each allows a login at the broker and gives the key a vhost there."""


def expand_amqp(scopes: Iterable[Scope], vhost: str) -> frozenset[Scope]:
    """Return a key's scopes at the broker.

    `trading:connect` means the same as `vcp:connect`. A legacy key without a write scope gets all of them, as it had before
    write
    scopes existed.
    """
    held = frozenset(scopes) & AMQP_SCOPES
    if Scope.TRADING_CONNECT in held:
        held |= {Scope.VCP_CONNECT}
    if vhost == LEGACY_VHOST and held and not held & WRITE_SCOPES:
        held |= WRITE_SCOPES
    return held
