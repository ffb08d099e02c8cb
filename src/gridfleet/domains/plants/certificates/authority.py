"""Load, create and replace the certificate authority of the deployment."""

from typing import Any, Final

from gridfleet.domains.plants.certificates import store
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.encrypted import EncryptedTable
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["AUTHORITY_KEY", "AuthorityInUse", "ensure_authority", "find_authority", "replace_authority"]

_ROW: Final[dict[str, Any]] = {"table": "certificate_authority", "column": "private_key", "row_id": "1"}

AUTHORITY_KEY: Final = EncryptedTable("certificate_authority", ("id",), ("private_key",), row_id=lambda _: str(_ROW["row_id"]))
"""The encrypted columns of the authority."""


class AuthorityInUse(Exception):
    """Plants hold packages that name the current authority; `plants` is their number."""

    def __init__(self, plants: int) -> None:
        super().__init__(f"{plants} plants trust the current authority")
        self.plants = plants


async def find_authority(db: Connection, keyring: Keyring) -> Authority | None:
    """Return the authority; None while there is none.

    Raises:
        DecryptionFailed, UnknownKeyVersion: The keyring does not belong to this database.
    """
    row = await store.find(db)
    if row is None:
        return None
    certificate, private_key, key_version = row
    return Authority(certificate, keyring.decrypt(private_key, key_version, **_ROW).decode())


async def ensure_authority(db: Connection, keyring: Keyring) -> Authority:
    """Return the authority, and create it if there is none. Several processes may call this at the same time."""
    authority = await find_authority(db, keyring)
    if authority is None:
        fresh = Authority.create()
        await store.insert(db, fresh.certificate_pem, keyring.encrypt(fresh.key_pem.encode(), **_ROW), keyring.current_version)
        authority = await find_authority(db, keyring)
    if authority is None:
        raise LookupError("the certificate authority was removed while it was being read")
    return authority


async def replace_authority(db: Connection, keyring: Keyring, authority: Authority, *, force: bool = False) -> None:
    """Replace the current authority; certificates are issued by the new one from now on.

    Raises:
        AuthorityInUse: Plants trust the current authority and `force` is not set.
    """
    await store.hold(db)
    plants = await store.count_trusting(db)
    if plants and not force:
        raise AuthorityInUse(plants)
    await store.replace(
        db, authority.certificate_pem, keyring.encrypt(authority.key_pem.encode(), **_ROW), keyring.current_version
    )
