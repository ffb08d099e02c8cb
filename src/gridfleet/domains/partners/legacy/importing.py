"""Keys of older integrations, imported from a CSV file.

A row has `id`, `organisation` (slug or id), `key` or `hash` (SHA-256 in hex), `scopes` (separated by spaces), and may have
`expiry`, `name` and `signing_key` (64 hex digits). Imported keys work in the vhost `/`.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

from psycopg.errors import UniqueViolation

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.partners import vhosts
from gridfleet.domains.partners.broker_keys import store as broker_keys
from gridfleet.domains.partners.key_text import SHOWN_CHARACTERS, broker_digest_of
from gridfleet.domains.partners.legacy import store
from gridfleet.domains.partners.models import LegacyKey
from gridfleet.domains.partners.scopes import Scope
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["ImportRefused", "Imported", "import_keys", "read_keys"]

_REQUIRED: Final = frozenset({"id", "organisation", "scopes"})
_OPTIONAL: Final = frozenset({"key", "hash", "expiry", "name", "signing_key"})
_MAX_NAME: Final = 100
_OUTCOMES: Final = {
    "partner_key_pkey": "id: belongs to another key",
    "partner_key_hash_key": "key: is that of another key",
    "partner_key_one_legacy": "organisation: has a key in the vhost / already, and commands there must name one sender",
}


class ImportRefused(Exception):
    """Nothing was imported. `complaints` name the lines."""

    def __init__(self, complaints: Sequence[str]) -> None:
        super().__init__("; ".join(complaints))
        self.complaints = complaints


class Imported(NamedTuple):
    """The number of new keys, and of keys that an earlier run imported."""

    new: int
    known: int


def read_keys(text: str) -> list[LegacyKey]:
    """Return the rows of a CSV file. Raises ImportRefused with all errors."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        columns = [name.strip().lower() for name in reader.fieldnames or ()]
    except csv.Error as error:
        raise ImportRefused([f"line 1: {error}"]) from error
    reader.fieldnames = columns
    complaints = [f"line 1: the column {name} is missing" for name in sorted(_REQUIRED - set(columns))]
    complaints += [f"line 1: {name} is no column" for name in columns if name not in _REQUIRED | _OPTIONAL]
    if complaints:
        raise ImportRefused(complaints)
    keys = []
    try:
        for row in reader:
            try:
                keys.append(_read_row(reader.line_num, {name: (value or "").strip() for name, value in row.items() if name}))
            except ValueError as error:
                complaints.append(f"line {reader.line_num}: {error}")
    except csv.Error as error:
        complaints.append(f"line {reader.line_num}: {error}")
    if complaints:
        raise ImportRefused(complaints)
    return keys


async def import_keys(db: Connection, keyring: Keyring, creator_id: UUID, keys: Sequence[LegacyKey]) -> Imported:
    """Store the keys, active at once, in the caller's transaction. `creator_id` is the user recorded as their creator.

    Raises:
        ImportRefused: With all errors, or because another import is running. Roll the transaction back.
    """
    if not await store.try_lock(db):
        raise ImportRefused(["another import of keys is running; try again when it has ended"])
    complaints, known = [], 0
    for key in keys:
        if await store.is_known(db, key.id, key.digest):
            known += 1
        elif complaint := await _import(db, keyring, creator_id, key):
            complaints.append(f"line {key.line}: {complaint}")
    if complaints:
        raise ImportRefused(complaints)
    return Imported(len(keys) - known, known)


async def _import(db: Connection, keyring: Keyring, creator_id: UUID, key: LegacyKey) -> str | None:
    encrypted = version = None
    if key.signing_key is not None:
        encrypted = keyring.encrypt(key.signing_key, table="partner_key", column="signing_key", row_id=key.id)
        version = keyring.current_version
    try:
        organization_id = await store.insert(db, key, encrypted, version, creator_id)
    except UniqueViolation as error:
        return _OUTCOMES[error.diag.constraint_name or ""]
    except LookupError:
        return f"organisation: there is no {key.organization}"
    details = {"name": key.name, "scopes": key.scopes, "imported": True}
    subject = Subject(SubjectType.API_KEY, key.id)
    actor = Actor(ActorType.SYSTEM)
    await record(db, Event.API_KEY_CREATED, actor, subject, organization_id=organization_id, details=details)
    at_broker = await broker_keys.find_amqp(db, key.id)
    if at_broker is not None:
        await vhosts.queue_vhost_update(db, at_broker)
    return None


def _read_row(line: int, row: Mapping[str, str]) -> LegacyKey:
    text, digest_text = row.get("key", ""), row.get("hash", "")
    if bool(text) == bool(digest_text):
        raise ValueError("needs either key or hash")
    digest = broker_digest_of(text) if text else _hex(digest_text, "hash")
    if digest is None:
        raise ValueError("key: must have 20 to 200 printable ASCII characters, and a valid checksum if it begins with gf_live_")
    shown = text[:SHOWN_CHARACTERS] if text else f"sha256:{digest_text}"[:SHOWN_CHARACTERS]
    name = row.get("name") or "Imported key"
    if len(name) > _MAX_NAME:
        raise ValueError(f"name: must have at most {_MAX_NAME} characters")
    signing_key = row.get("signing_key", "")
    return LegacyKey(
        line=line,
        id=_id(row["id"]),
        organization=_required(row["organisation"], "organisation"),
        digest=digest,
        shown=shown,
        scopes=_scopes(row["scopes"]),
        expires_at=_expiry(row.get("expiry", "")),
        name=name,
        signing_key=_hex(signing_key, "signing_key") if signing_key else None,
    )


def _required(text: str, name: str) -> str:
    if not text:
        raise ValueError(f"{name}: is empty")
    return text


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ValueError("id: must be a UUID") from None


def _hex(text: str, name: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != sha256().digest_size:
        raise ValueError(f"{name}: must be 64 hex digits")
    return found


def _scopes(text: str) -> tuple[Scope, ...]:
    known = {scope.value: scope for scope in Scope}
    names = text.replace(";", " ").replace(",", " ").split()
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"scopes: {unknown[0]} is not a scope")
    if not names:
        raise ValueError("scopes: is empty")
    return tuple(dict.fromkeys(known[name] for name in names))


def _expiry(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("expiry: must be a time such as 2027-12-31T00:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("expiry: needs a time zone, such as Z")
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:  # PostgreSQL would store a year that Python cannot read
        raise ValueError("expiry: must be before the year 10000") from None
    if moment <= utc_now():
        raise ValueError("expiry: must be in the future")
    return moment
