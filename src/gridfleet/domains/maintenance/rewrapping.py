"""Re-encryption of everything that is encrypted at rest with one version of the keyring, while the service runs.

Rows are processed in small batches by key, one short transaction each. A run that is killed loses nothing, and the next one
continues with what remains. A row is locked while it is decrypted and encrypted again: no concurrent change is overwritten,
and readers see the blob with its version, either before or after.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from gridfleet.domains.audit.models import Event
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.partners.signing import SIGNING_KEYS
from gridfleet.domains.plants.certificates.authority import AUTHORITY_KEY
from gridfleet.domains.plants.credentials.packages import PLANT_SECRETS
from gridfleet.domains.trading.configuration import ESM_SECRETS
from gridfleet.kernel.caller import Actor
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.encrypted import EncryptedRecords, EncryptedRow
from gridfleet.kernel.db.idempotency import RESPONSES
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.mail.queue import QUEUED_MAILS
from gridfleet.kernel.security.keyring import DecryptionFailed, Keyring, UnknownKeyVersion

__all__ = ["ENCRYPTED", "KeyVersion", "Rewrapped", "key_versions", "rewrap", "versions_in_use"]

ENCRYPTED: Final[tuple[EncryptedRecords, ...]] = (
    PLANT_SECRETS,
    ESM_SECRETS,
    SIGNING_KEYS,
    AUTHORITY_KEY,
    RESPONSES,
    QUEUED_MAILS,
)
"""Every kind of row with encrypted columns."""

_BATCH: Final = 50
"""Rows of a transaction. A response that is kept for `Idempotency-Key` may have a megabyte, and each is in memory twice."""

log = structlog.get_logger(__name__)


class Rewrapped(msgspec.Struct, frozen=True, rename="camel"):
    """The number of re-encrypted rows: plants' secrets and trading configurations.

    `failed` counts the rows of every kind that could not be decrypted and were not changed. The audit event also counts the
    other kinds.
    """

    target_version: int
    plants: int
    trading_partner_configs: int
    failed: int


class KeyVersion(msgspec.Struct, frozen=True, rename="camel"):
    """A version of the keyring, and the number of stored rows that are encrypted with it.

    Without `is_in_keyring`, the keyring of this process lacks the version, and the rows cannot be read.
    """

    version: int
    is_in_keyring: bool
    is_current: bool
    rows: int


async def versions_in_use(db: Connection, keyring: Keyring) -> list[KeyVersion]:
    """Return every version that is in the keyring or encrypts a row, ascending."""
    rows = Counter[int]()
    for counted in (await key_versions(db)).values():
        rows.update(counted)
    return [
        KeyVersion(version, version in keyring.versions, version == keyring.current_version, rows[version])
        for version in sorted({*keyring.versions, *rows})
    ]


async def rewrap(database: Database, keyring: Keyring, target_version: int, actor: Actor) -> Rewrapped:
    """Encrypt every row of another version with `target_version`, which may be any version of the keyring.

    Raises:
        ValidationFailed: The version is not in the keyring.
    """
    if target_version not in keyring.versions:
        known = ", ".join(map(str, keyring.versions))
        raise ValidationFailed(details=[f"targetVersion: is not in the keyring, which has {known}"])
    done: dict[str, int] = {}
    failed = 0
    for records in ENCRYPTED:
        done[records.kind], wrong = await _rewrap_kind(database, keyring, target_version, records)
        failed += wrong
    log.info("credentials rewrapped", target_version=target_version, failed=failed, **done)
    async with database.transaction() as db:
        details = {"targetVersion": target_version, **done, "failed": failed}
        await record(db, Event.CREDENTIALS_REWRAPPED, actor, details=details)
    return Rewrapped(target_version, done[PLANT_SECRETS.kind], done[ESM_SECRETS.kind], failed)


async def key_versions(db: Connection) -> dict[str, dict[int, int]]:
    """Return the number of rows that need each version of the keyring, by kind and version."""
    return {records.kind: await records.count(db) for records in ENCRYPTED}


async def _rewrap_kind(database: Database, keyring: Keyring, target: int, records: EncryptedRecords) -> tuple[int, int]:
    """Return how many rows of a kind were encrypted again, and how many could not be decrypted."""
    done = failed = 0
    # The first pass skips locked rows. The second waits for what remains: rows that were locked, and those that cannot be
    # decrypted.
    for wait in (False, True):
        failed = 0
        after = None
        while True:
            async with database.transaction() as db:
                rows = await records.take(db, target, after, _BATCH, wait=wait)
                good = [fresh for row in rows if (fresh := _again(keyring, target, records, row, report=wait)) is not None]
                if good:
                    await records.replace(db, target, good)
            if not rows:
                break
            done += len(good)
            failed += len(rows) - len(good)
            after = rows[-1].key
    return done, failed


def _again(keyring: Keyring, target: int, records: EncryptedRecords, row: EncryptedRow, *, report: bool) -> EncryptedRow | None:
    """Return the row with its blobs encrypted by the target version; None if one of them cannot be decrypted."""
    try:
        return row._replace(blobs=tuple(_blobs(keyring, target, records.kind, records.columns, row)))
    except (DecryptionFailed, UnknownKeyVersion) as error:
        if report:
            log.error("cannot decrypt a row", table=records.kind, row_id=row.row_id, error=str(error))
        return None


def _blobs(keyring: Keyring, target: int, table: str, columns: Sequence[str], row: EncryptedRow) -> "list[bytes | None]":
    fresh: list[bytes | None] = []
    for column, blob in zip(columns, row.blobs, strict=True):
        if blob is not None:
            plain = keyring.decrypt(blob, row.key_version, table=table, column=column, row_id=row.row_id)
            blob = keyring.encrypt(plain, table=table, column=column, row_id=row.row_id, key_version=target)
        fresh.append(blob)
    return fresh
