"""The keyring: the deployment's root keys, by version.

One version encrypts and signs: the highest, or the one that is marked as current. Every version in the keyring decrypts and
verifies. To replace a key, add a new one, and remove the old one when nothing refers to it any more. A root key is used for
derivation only (HKDF-SHA256, RFC 5869).
"""

import os
import re
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gridfleet.kernel.outages import WrongSetting

__all__ = ["DecryptionFailed", "Keyring", "UnknownKeyVersion"]

_ENTRY: Final = re.compile(r"([1-9][0-9]{0,8}):([0-9a-fA-F]{64})(:current)?")
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16


class UnknownKeyVersion(LookupError):
    """A record or token refers to a key version that is not in the keyring."""


class DecryptionFailed(ValueError):
    """The bytes were modified, or belong to another table, column or row."""


class Keyring:
    """Root keys by version."""

    def __init__(self, keys: dict[int, bytes], current_version: int | None = None) -> None:
        """Derive the ciphers.

        Args:
            keys: 32 bytes by version from 1, at least one.
            current_version: The version that encrypts; None is the highest.
        """
        if not keys or any(version < 1 or len(key) != 32 for version, key in keys.items()):
            raise ValueError("a keyring needs at least one key, of 32 bytes, with a version from 1")
        self._keys = dict(sorted(keys.items()))
        self.current_version: int = max(keys) if current_version is None else current_version
        """The version that encrypts and signs."""
        self._ciphers = {version: AESGCM(self.derive("encryption at rest", version)) for version in self._keys}

    @classmethod
    def parse(cls, text: str) -> "Keyring":
        """Parse a keyring of the form `1:<64 hex>,2:<64 hex>`.

        `1:<64 hex>:current` makes that version encrypt although it is not the highest.

        Raises:
            WrongSetting: The text is invalid. The error does not contain it.
        """
        keys: dict[int, bytes] = {}
        current = None
        for entry in text.split(","):
            match = _ENTRY.fullmatch(entry.strip())
            if match is None or int(match[1]) in keys or (match[3] and current is not None):
                raise WrongSetting(
                    "a keyring (GRIDFLEET_KEYS, else secrets/keys) is written 1:<64 hex digits>,2:<64 hex digits>, each version"
                    " once, at most one of them :current"
                )
            keys[int(match[1])] = bytes.fromhex(match[2])
            if match[3]:
                current = int(match[1])
        return cls(keys, current)

    @staticmethod
    def generate() -> str:
        """Return a new keyring with one random key, as text."""
        return f"1:{os.urandom(32).hex()}"

    def __repr__(self) -> str:
        return f"Keyring(versions={self.versions})"

    @property
    def versions(self) -> tuple[int, ...]:
        """All versions, ascending."""
        return tuple(self._keys)

    def derive(self, purpose: str, version: int | None = None) -> bytes:
        """Derive 32 bytes for one purpose, the same in every process.

        HKDF-SHA256 of the root key, without salt, with `gridfleet {purpose}` as info. Default: the current version.

        Raises:
            UnknownKeyVersion: The version is not in the keyring.
        """
        root = self._key(self.current_version if version is None else version)
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=f"gridfleet {purpose}".encode()).derive(root)

    def encrypt(
        self, plaintext: bytes, *, table: str, column: str, row_id: UUID | str | int, key_version: int | None = None
    ) -> bytes:
        """Encrypt with AES-256-GCM and return nonce, ciphertext and tag.

        Table, column and row id are authenticated, so a blob that is moved to another row or column does not decrypt.

        Args:
            plaintext: The bytes to encrypt.
            table: The table of the blob.
            column: Its column.
            row_id: Its row.
            key_version: Default: the current version. The row must store the version beside the blob.

        Raises:
            UnknownKeyVersion: The version is not in the keyring.
        """
        version = self.current_version if key_version is None else key_version
        self._key(version)
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._ciphers[version].encrypt(nonce, plaintext, _associated_data(table, column, row_id))

    def decrypt(self, blob: bytes, key_version: int, *, table: str, column: str, row_id: UUID | str | int) -> bytes:
        """Decrypt a blob of this table, column and row.

        Raises:
            UnknownKeyVersion: The version is not in the keyring.
            DecryptionFailed: The blob was modified or belongs elsewhere.
        """
        self._key(key_version)
        if len(blob) < _NONCE_BYTES + _TAG_BYTES:
            raise DecryptionFailed(f"{table}.{column}: too short for a ciphertext")
        nonce, encrypted = blob[:_NONCE_BYTES], blob[_NONCE_BYTES:]
        try:
            return self._ciphers[key_version].decrypt(nonce, encrypted, _associated_data(table, column, row_id))
        except InvalidTag:
            raise DecryptionFailed(f"{table}.{column}: was not encrypted for this row by key version {key_version}") from None

    def _key(self, version: int) -> bytes:
        try:
            return self._keys[version]
        except KeyError:
            raise UnknownKeyVersion(f"key version {version} is not in the keyring") from None


def _associated_data(table: str, column: str, row_id: UUID | str | int) -> bytes:
    return f"{table}|{column}|{row_id}".encode()
