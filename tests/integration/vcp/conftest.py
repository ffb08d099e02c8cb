"""A plant whose organisation has a partner with an AMQP key and queues, over a database of the test's own."""

import pytest

from gridfleet.kernel.db import Database
from support.builders.partner_site import PartnerSite, partner_site


@pytest.fixture
async def site(database: Database) -> PartnerSite:
    """An ACTIVE plant with a battery that obeys ACTIONS."""
    return await partner_site(database)
