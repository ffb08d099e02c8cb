"""What a key may publish, bind and declare, by its scopes and its organisation's names."""

from itertools import product
from uuid import uuid4

import pytest

from gridfleet.domains.partners.amqp_access.decisions import is_own_queue, key_of_tags, may_bind, may_publish
from gridfleet.domains.partners.models import AmqpKey
from gridfleet.domains.partners.scopes import AMQP_SCOPES, WRITE_SCOPES, Scope, expand_amqp
from gridfleet.protocol.partner_routes import CommandKind

FAMILIES = {
    Scope.VCP_WRITE_SETPOINT: ["command.site-setpoint"],
    Scope.VCP_WRITE_DEVICE_COMMAND: ["command.device", "command.device.INV-1", "command.device.a_b"],
    Scope.VCP_WRITE_MODE: ["command.mode"],
    Scope.VCP_WRITE_SCHEDULE: ["schedule.set", "schedule.cancel"],
    Scope.VCP_WRITE_CONFIG: ["config.constraints", "config.fallback"],
}


def key(*scopes: Scope, slug: str = "acme") -> AmqpKey:
    return AmqpKey(uuid4(), uuid4(), slug, "partner-x", frozenset(scopes), None)


@pytest.mark.parametrize(("scope", "family"), list(product(FAMILIES, FAMILIES)))
def test_a_scope_opens_its_family_alone(scope: Scope, family: Scope) -> None:
    for rest in FAMILIES[family]:
        assert may_publish(key(scope), f"acme.{rest}") == (scope is family)
        assert not may_publish(key(scope), f"acme-energy.{rest}")
        assert not may_publish(key(scope, slug="acme-energy"), f"acme.{rest}")
        assert not may_publish(key(Scope.VCP_CONNECT), f"acme.{rest}")


def test_every_order_of_the_protocol_has_its_family() -> None:
    for order in CommandKind:
        assert may_publish(key(Scope(order.scope)), f"acme.{order}")
        assert not may_publish(key(*(WRITE_SCOPES - {Scope(order.scope)})), f"acme.{order}")


@pytest.mark.parametrize(
    "rest", ["", "event.status", "command.mode.x", "command.mode\n", "schedule", "schedule.a.b", "#", "*.mode"]
)
def test_nothing_else_is_a_family(rest: str) -> None:
    assert not may_publish(key(*AMQP_SCOPES), f"acme.{rest}")


@pytest.mark.parametrize("binding", ["#", "*", "acme.#", "acme.*.status", "acme.command.mode", "acme-energy.event.status", ""])
def test_a_binding_catches_own_events_alone(binding: str) -> None:
    assert not may_bind(key(*AMQP_SCOPES), binding)
    assert may_bind(key(Scope.VCP_CONNECT), "acme.event.status")
    assert not may_bind(key(*WRITE_SCOPES), "acme.event.status")


@pytest.mark.parametrize(
    ("name", "prefix", "own"),
    [
        ("acme.x", "acme", True),
        ("acme.inbound.x", "acme", True),
        ("acme.inbound", "acme", False),
        ("acme.inbound.replacing", "acme", False),
        ("acme", "acme", False),
        ("acmex", "acme", False),
        ("acme-energy.x", "acme", False),
        ("vcp.x", "vcp", False),
        ("vcp.vcp.event.status", "vcp", False),
        (".x", "", False),
    ],
)
def test_own_queues_begin_with_the_prefix(name: str, prefix: str, own: bool) -> None:
    assert is_own_queue(name, prefix) is own


def test_the_tag_names_the_key() -> None:
    one = uuid4()
    for tags in (f"key-{one}", f"key-{one} proof", f"key-{one},proof", f"proof key-{one}"):
        assert key_of_tags(tags) == one
    for tags in ("", "administrator", "key-", "key-x", f"{one}"):
        assert key_of_tags(tags) is None


def test_old_keys_keep_working() -> None:
    assert expand_amqp([Scope.VCP_CONNECT], "/") == {Scope.VCP_CONNECT, *WRITE_SCOPES}
    assert expand_amqp([Scope.TRADING_CONNECT], "/") == {Scope.VCP_CONNECT, Scope.TRADING_CONNECT, *WRITE_SCOPES}
    assert expand_amqp([Scope.VCP_CONNECT, Scope.VCP_WRITE_MODE], "/") == {Scope.VCP_CONNECT, Scope.VCP_WRITE_MODE}
    assert expand_amqp([Scope.PLANTS_READ], "/") == set()
    assert expand_amqp([Scope.VCP_CONNECT, Scope.PLANTS_READ], "partner-x") == {Scope.VCP_CONNECT}
    assert expand_amqp([Scope.TRADING_CONNECT], "partner-x") == {Scope.VCP_CONNECT, Scope.TRADING_CONNECT}
