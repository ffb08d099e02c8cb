"""The table of routes: what the broker's rights and bindings, the API and the docs derive from it."""

import re

import pytest

from gridfleet.domains.partners.scopes import WRITE_SCOPES
from gridfleet.domains.partners.topology import PartnerQueues, service_queues
from gridfleet.domains.trading.partner_queues import partner_queues
from gridfleet.protocol.partner_routes import FAMILIES, CommandKind, EventKind, parse_inbound


def test_each_kind_of_command_is_in_one_family() -> None:
    assert sorted(order for family in FAMILIES for order in family.commands) == sorted(CommandKind)
    assert {family.scope for family in FAMILIES} == WRITE_SCOPES
    for family in FAMILIES:
        assert [order for order in CommandKind if family.matches(order)] == list(family.commands)
        assert all((order.scope, order.signed) == (family.scope, family.signed) for order in family.commands)


@pytest.mark.parametrize(
    "key", ["", "command", "command.device.a.b", "command.mode.x", "command.mode\n", "schedule", "event.status", "*"]
)
def test_other_routing_keys_are_in_no_family(key: str) -> None:
    assert not any(family.matches(key) for family in FAMILIES)


def test_the_inbound_queue_is_bound_to_each_family() -> None:
    *_, inbound = service_queues(PartnerQueues("acme", "trade"))
    assert (inbound.name, inbound.routing_keys) == (
        "trade.inbound",
        (
            "acme.command.site-setpoint",
            "acme.command.device",
            "acme.command.device.*",
            "acme.command.mode",
            "acme.schedule.*",
            "acme.config.*",
        ),
    )
    for order in CommandKind:
        bound = [
            one for one in inbound.routing_keys if re.fullmatch(one.replace(".", r"\.").replace("*", "[^.]+"), f"acme.{order}")
        ]
        assert len(bound) == 1
        assert parse_inbound("acme", f"acme.{order}") == (order, None)


def test_the_api_lists_each_kind_of_event_and_each_family() -> None:
    listed = partner_queues("acme", "trade")
    assert [(one.name, one.routing_key) for one in listed if one.direction == "outbound"] == [
        (f"vcp.acme.event.{kind}", f"acme.event.{kind}") for kind in EventKind
    ]
    inbound = [(one.name, one.routing_key, one.description) for one in listed if one.direction == "inbound"]
    assert inbound[1] == (
        "trade.inbound",
        "acme.command.device.#",
        "An action of one device; its external id may end the key. Signed.",
    )
    assert inbound[4] == ("trade.inbound", "acme.config.*", "`config.constraints` and `config.fallback`. Unsigned.")
    assert len(inbound) == len(FAMILIES)
