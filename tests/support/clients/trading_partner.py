"""A partner's program at a running service, for tests of the events that it receives."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gridfleet.sdk.partner import EventKind, Partner
from support.clients.fleet_under_test import Fleet, JsonObject
from support.clients.partner_address import address_of

WRITING = [
    "vcp:connect",
    "vcp:read",
    "vcp:write:setpoint",
    "vcp:write:device-command",
    "vcp:write:schedule",
    "vcp:write:mode",
    "vcp:write:config",
]


def start_trading(fleet: Fleet) -> str:
    """Enable trading with the sandbox as ESM. Returns the organisation's slug, which is also the queue prefix."""
    sandbox = fleet.call("POST", f"/svc-esm/admin/enable?orgId={fleet.organization_id}")
    settings = {
        "esmApiUrl": sandbox["esmApiUrl"],
        "esmClientId": sandbox["clientId"],
        "esmClientSecret": sandbox["clientSecret"],
    }
    fleet.call("POST", "/trading/config", settings)
    return str(fleet.call("POST", "/trading/config/enable")["queuePrefix"])


def make_key(fleet: Fleet, scopes: list[str] = WRITING, **members: Any) -> JsonObject:
    """Create a key and return the create response."""
    body = {"name": "Trader", "partnerId": "trader-1", "scopes": scopes} | members
    created: JsonObject = fleet.call("POST", "/partner/api-keys", body)
    return created


@asynccontextmanager
async def connected(fleet: Fleet, slug: str, created: JsonObject) -> AsyncIterator[Partner]:
    """Connect the partner's program until the end of the block."""
    authority = (fleet.stack.home / "ca" / "ca.pem").read_text()
    address = address_of(fleet.stack, slug, created)
    async with Partner(address, signing_key=created["signingKey"], authority=authority) as partner:
        yield partner


class AckLedger:
    """Every acknowledgement that a partner received, by command, without repetitions."""

    def __init__(self) -> None:
        self.acks: defaultdict[str, list[str]] = defaultdict(list)

    @asynccontextmanager
    async def kept(self, partner: Partner) -> AsyncIterator[None]:
        """Record acknowledgements until the block ends."""
        reading = asyncio.create_task(self._read(partner))
        try:
            yield
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    async def _read(self, partner: Partner) -> None:
        async for event in partner.events(EventKind.COMMAND_ACK):
            self.acks[event.content["messageId"]].append(event.content["ackStatus"])

    async def ended(self, orders: list[str], seconds: float) -> None:
        """Return once each of these commands has its final acknowledgement."""
        async with asyncio.timeout(seconds):
            while any(self.acks[order][-1:] in ([], ["ACCEPTED"]) for order in orders):
                await asyncio.sleep(0.1)
