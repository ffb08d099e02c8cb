"""Partner commands as a partner's program writes them, and a key that may send all of them."""

import json
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from gridfleet.domains.partners.models import AmqpKey, SendingKey, vhost_of
from gridfleet.domains.partners.scopes import AMQP_SCOPES, Scope
from gridfleet.domains.vcp.models import PartnerMessage
from gridfleet.kernel.ids import new_id
from gridfleet.protocol import signature
from gridfleet.protocol.partner_routes import SIGNATURE_HEADER, TIMESTAMP_HEADER

SIGNING_KEY = bytes(range(32))
SLUG = "acme-energy"


def sending_key(
    organization_id: UUID | None = None,
    *,
    slug: str = SLUG,
    scopes: Iterable[Scope] = AMQP_SCOPES,
    plant_ids: Iterable[UUID] | None = None,
) -> SendingKey:
    """Return a key that signs with SIGNING_KEY."""
    key_id = new_id()
    plants = None if plant_ids is None else frozenset(plant_ids)
    key = AmqpKey(key_id, organization_id or new_id(), slug, vhost_of(key_id), frozenset(scopes), plants)
    return SendingKey(key, SIGNING_KEY)


def soon(seconds: float = 600) -> str:
    """Return a time in the future."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def body_of(site: UUID | str, **members: Any) -> dict[str, Any]:
    """Return the members of a partner command. None omits a member."""
    content = {"messageId": str(uuid4()), "siteId": str(site), "issuedAt": datetime.now(UTC).isoformat()} | members
    return {name: value for name, value in content.items() if value is not None}


def order(
    kind: str,
    site: UUID | str,
    *,
    slug: str = SLUG,
    key: bytes = SIGNING_KEY,
    age: float = 0,
    headers: dict[str, Any] | None = None,
    **members: Any,
) -> PartnerMessage:
    """Return a signed message for `{slug}.{kind}`."""
    return signed(f"{slug}.{kind}", body_of(site, **members), key=key, age=age, headers=headers)


def signed(
    routing_key: str,
    content: dict[str, Any],
    *,
    key: bytes = SIGNING_KEY,
    age: float = 0,
    headers: dict[str, Any] | None = None,
) -> PartnerMessage:
    """Return a signed message with a body of any kind."""
    body = json.dumps(content).encode()
    sent_at = int((time.time() - age) * 1000)
    sig = signature.sign(key, routing_key, str(content.get("messageId")), sent_at, body)
    return PartnerMessage(routing_key, body, {SIGNATURE_HEADER: sig, TIMESTAMP_HEADER: sent_at} if headers is None else headers)


def signed_bytes(routing_key: str, body: bytes, site: str | None, *, key: bytes = SIGNING_KEY) -> PartnerMessage:
    """Return a message whose body need not be JSON.

    With `site`, the placeholder id in a poisoned sample is replaced by the site's, and the signature is valid.
    """
    if site is None:
        return PartnerMessage(routing_key, body, {SIGNATURE_HEADER: "0" * 64, TIMESTAMP_HEADER: int(time.time() * 1000)})
    body = body.replace(b"00000000-0000-0000-0000-000000000000", site.encode())
    sent_at = int(time.time() * 1000)
    found = re.search(rb'"messageId": "([0-9a-f-]{36})"', body)
    message_id = str(uuid4()).encode()
    if found:  # a new id for each message, also when Hypothesis repeats a sample
        body = body.replace(found[1], message_id)
    sig = signature.sign(key, routing_key, message_id.decode() if found else "None", sent_at, body)
    return PartnerMessage(routing_key, body, {SIGNATURE_HEADER: sig, TIMESTAMP_HEADER: sent_at})
