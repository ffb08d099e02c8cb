"""Times that a partner's program gives to its client."""

from datetime import datetime

import pytest

from gridfleet.protocol.partner_routes import CommandKind
from gridfleet.sdk.partner import Partner


async def test_an_expiry_without_a_time_zone_is_refused() -> None:
    partner = Partner("amqp://acme:key@127.0.0.1:1/vhost", patience_seconds=0)
    with pytest.raises(ValueError, match="time zone"):
        await partner.send(CommandKind.MODE, "site", mode="STANDBY", expires_at=datetime(2026, 11, 20, 10))
