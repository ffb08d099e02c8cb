"""Two organisations whose slugs begin alike, at the whole service."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from support.clients.partner_organization import Organization
from support.servers.running_stack import RunningStack


@pytest.fixture(scope="module")
def acme(stack: RunningStack) -> Iterator[Organization]:
    found = Organization(stack, f"acme{uuid4().hex[:8]}")
    yield found
    found.close()


@pytest.fixture(scope="module")
def acme_energy(stack: RunningStack, acme: Organization) -> Iterator[Organization]:
    """Its slug begins with the other's."""
    found = Organization(stack, f"{acme.slug}-energy")
    yield found
    found.close()
