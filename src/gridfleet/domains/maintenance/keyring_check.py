"""The check that the keyring is that of the database."""

from gridfleet.domains.maintenance.rewrapping import key_versions
from gridfleet.domains.plants.certificates.authority import find_authority
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import DecryptionFailed, Keyring, UnknownKeyVersion

__all__ = ["WrongKeyring", "check_keyring"]


class WrongKeyring(Exception):
    """The keyring does not decrypt what the database contains. The text gives the reason.

    Attributes:
        remedy: What to do about it.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy


async def check_keyring(db: Connection, keyring: Keyring, *, is_behind: bool = False) -> Authority | None:
    """Return the authority, None while there is none, if the keyring decrypts its key and has every version that a row needs.

    Args:
        db: The database.
        keyring: The keyring to check.
        is_behind: The schema is that of an earlier release, so that only the authority's key can be checked.

    Raises:
        WrongKeyring: The keyring does not belong to this database.
    """
    needed = {} if is_behind else await key_versions(db)
    if missing := sorted({version for counts in needed.values() for version in counts} - set(keyring.versions)):
        raise WrongKeyring(
            f"rows need version {', '.join(map(str, missing))}, the keyring has {', '.join(map(str, keyring.versions))}",
            "add the missing version to GRIDFLEET_KEYS (or secrets/keys): docs/operations.md, section Keys",
        )
    try:
        return await find_authority(db, keyring)
    except (DecryptionFailed, UnknownKeyVersion) as error:
        raise WrongKeyring(f"does not fit the database: {error}", "use the keyring of this database") from None
