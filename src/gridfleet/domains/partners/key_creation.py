"""Creating API keys: insert an inactive key, prove it at the broker, activate it.

    check ──▶ prepare (its own transaction) ──▶ vhost and proof, if it may use the broker ──▶ activate
                                                                └── failed ──▶ withdraw (its own transaction)

The broker sends requests about the new key while it is being proved, so the key must be committed before. At that time only
the service has the key. `vhosts.expire_due` removes what a killed process leaves behind.
"""

import secrets
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.queries import limit_a_day_in
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.identity.accounts.registry import users_by_id
from gridfleet.domains.organizations.membership import require_admin
from gridfleet.domains.partners import store, vhosts
from gridfleet.domains.partners.broker_keys import store as broker_keys
from gridfleet.domains.partners.errors import SelfTestFailed
from gridfleet.domains.partners.key_text import make_key
from gridfleet.domains.partners.models import AmqpKey, CreatedKey, NewKey, vhost_of
from gridfleet.domains.partners.registry import shown
from gridfleet.domains.partners.scopes import AMQP_SCOPES, WRITE_SCOPES
from gridfleet.domains.plants.registry import visible_among
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.rate_limit import refuse_within_a_day
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["PreparedKey", "activate", "check", "prepare", "withdraw"]

_MOST_COMPLAINTS: Final = 1_000
_MOST_AT_BROKER: Final = 100
"""Maximum number of an organisation's keys that may use the broker: each has a vhost there (docs/decisions/0251)."""

MOST_A_DAY: Final = 1_000
"""Maximum number of keys of any kind that an organisation creates within 24 hours: their rows are kept."""

_MOST_AT_BROKER_A_DAY: Final = 200
"""Maximum number of such keys that an organisation creates within 24 hours, and of creations that fail: what the broker keeps
of a deleted vhost and its quorum queues is never freed (docs/decisions/0430)."""


class PreparedKey(NamedTuple):
    """A key that waits for its proof. `at_broker` is its record for the broker, None if it may not log in there."""

    id: UUID
    text: str
    signing_key: bytes | None
    at_broker: AmqpKey | None


async def check(db: Connection, org: OrgScope, wanted: NewKey) -> None:
    """Check that the organisation may create the key.

    Raises:
        ValidationFailed: With all errors.
        TooManyRequests: The organisation created too many keys within a day, or too many creations for the broker failed.
    """
    await _check(db, org, wanted)
    refuse_within_a_day(await store.nth_newest(db, org, MOST_A_DAY))
    if AMQP_SCOPES & set(wanted.scopes):
        refuse_within_a_day(await store.nth_newest_at_broker(db, org, _MOST_AT_BROKER_A_DAY))
        await limit_a_day_in(db, org, Event.API_KEY_CREATION_FAILED, _MOST_AT_BROKER_A_DAY)


async def prepare(db: Connection, keyring: Keyring, org: OrgScope, wanted: NewKey) -> PreparedKey:
    """Store a new, inactive key that was checked."""
    key_id, text = new_id(), make_key()
    signing_key = secrets.token_bytes(32) if WRITE_SCOPES & set(wanted.scopes) else None
    encrypted = version = None
    if signing_key is not None:
        encrypted = keyring.encrypt(signing_key, table="partner_key", column="signing_key", row_id=key_id)
        version = keyring.current_version
    stored = store.Secrets(text.prefix, text.digest, encrypted, version)
    may_log_in = bool(AMQP_SCOPES & set(wanted.scopes))
    known = await store.insert(db, org, key_id, vhost_of(key_id), wanted, stored, at_broker=may_log_in)
    return PreparedKey(key_id, text.text, signing_key, known)


async def activate(db: Connection, org: OrgScope, prepared: PreparedKey) -> CreatedKey:
    """Activate the key and return it with its secrets, which are returned only this once.

    Raises:
        SelfTestFailed: The key was withdrawn meanwhile.
        Forbidden: The caller is no longer an ORG_ADMIN of the organisation.
    """
    await require_admin(db, org)  # the proof has taken seconds
    row = await store.activate(db, org, prepared.id)
    if row is None:
        raise SelfTestFailed
    details = {"name": row.name, "partnerId": row.partner_id, "scopes": row.scopes}
    subject = Subject(SubjectType.API_KEY, row.id)
    await record_in(db, org, Event.API_KEY_CREATED, subject, details)
    creators = await users_by_id(db, [row.created_by])
    signing_key = None if prepared.signing_key is None else prepared.signing_key.hex()
    return CreatedKey(prepared.text, signing_key, shown(row, creators))


async def withdraw(db: Connection, org: OrgScope, prepared: PreparedKey) -> None:
    """Delete a key that was not proved. Its vhost is removed after the commit, as soon as the broker is available.

    The failure of a key for the broker is recorded in the audit log, because an organisation can cause any number of failures:
    an ORG_ADMIN may demote the one who creates the key, or the organisation's programs may exhaust the limits of the broker.
    """
    await store.delete_unproven(db, org, prepared.id)
    if prepared.at_broker is not None:
        await vhosts.queue_vhost_update(db, prepared.at_broker)
        await record_in(db, org, Event.API_KEY_CREATION_FAILED, Subject(SubjectType.API_KEY, prepared.id))


async def _check(db: Connection, org: OrgScope, wanted: NewKey) -> None:
    complaints = []
    if wanted.expires_at is not None and wanted.expires_at <= utc_now():
        complaints.append("expiresAt: must be in the future")
    if AMQP_SCOPES & set(wanted.scopes) and await broker_keys.count_amqp_of(db, org) >= _MOST_AT_BROKER:
        complaints.append(
            f"scopes: must not contain a scope for the broker: the organisation has {_MOST_AT_BROKER} such keys;"
            " revoke one first"
        )
    known = await visible_among(db, org, wanted.plant_ids or ())
    complaints += [
        f"allowedPlantIds.{number}: is no plant of this organisation"
        for number, plant_id in enumerate(wanted.plant_ids or ())
        if plant_id not in known
    ]
    if complaints:
        raise ValidationFailed(details=complaints[:_MOST_COMPLAINTS])
