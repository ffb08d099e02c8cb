"""Streams are limited for each user, and no organisation takes the slots of the others."""

from contextlib import ExitStack
from uuid import UUID, uuid4

import pytest

from gridfleet.api.access import streams
from gridfleet.api.access.streams import StreamSlots
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.errors import TooManyRequests


def member(organization_id: UUID, user_id: UUID | None = None) -> OrgScope:
    user = UserCaller(user_id or uuid4(), uuid4(), "v@example.com", "V", is_super_admin=False, default_organization_id=None)
    return OrgScope(organization_id, OrgRole.VIEWER, user)


def taken(slots: StreamSlots, stack: ExitStack, scope: OrgScope | None, organization_id: UUID) -> int:
    """Take slots until one is refused; their number."""
    count = 0
    while True:
        try:
            stack.enter_context(slots.hold(scope or member(organization_id)))
        except TooManyRequests:
            return count
        count += 1


def test_a_user_has_a_number_of_streams() -> None:
    slots, organization = StreamSlots(), uuid4()
    with ExitStack() as stack:
        assert taken(slots, stack, member(organization), organization) == streams.MOST_OF_CALLER
        assert taken(slots, stack, member(organization), organization) == streams.MOST_OF_CALLER
    assert len(slots) == 0


def test_each_organisation_finds_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST", 64)
    slots, organizations = StreamSlots(), [uuid4() for _ in range(4)]
    with ExitStack() as stack:
        assert [taken(slots, stack, None, one) for one in organizations] == [32, 16, 8, 4]
        assert taken(slots, stack, None, organizations[0]) == 0
    assert taken(slots, ExitStack(), None, organizations[3]) == 32
