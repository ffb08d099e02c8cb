"""Load or make the deployment's certificate authority."""

from gridfleet.domains.plants.certificates import store
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["ensure_authority"]

_PLACE = {"table": "certificate_authority", "column": "private_key", "row_id": "1"}


async def ensure_authority(db: Connection, keyring: Keyring) -> Authority:
    """The authority; made when there is none. Safe against several processes that start at once."""
    row = await store.find(db)
    if row is None:
        fresh = Authority.create()
        await store.insert(
            db, fresh.certificate_pem, keyring.encrypt(fresh.key_pem.encode(), **_PLACE), keyring.current_version
        )
        row = await store.find(db)
    if row is None:
        raise LookupError("the certificate authority was removed while it was being read")
    certificate, private_key, key_version = row
    return Authority(certificate, keyring.decrypt(private_key, key_version, **_PLACE).decode())
