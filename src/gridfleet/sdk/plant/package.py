"""The provisioning package: the credentials and addresses that a plant needs, in one JSON file."""

import os
import ssl
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec

from gridfleet.protocol import signature
from gridfleet.protocol.envelope import MAX_MESSAGE_BYTES
from gridfleet.sdk.plant.errors import PackageError

__all__ = ["Address", "AuthMethod", "MqttAccess", "Package", "ProtocolTerms", "Security", "Topics"]


class AuthMethod(StrEnum):
    """Authentication method of a plant at the broker."""

    MTLS = "MTLS"
    TOKEN = "TOKEN"  # noqa: S105 - the method's name
    PASSWORD = "PASSWORD"  # noqa: S105 - the method's name


class Topics(msgspec.Struct, frozen=True):
    """The plant's four MQTT topics."""

    telemetry: str
    status: str
    commands: str
    ack: str


class Address(msgspec.Struct, frozen=True):
    """An address of the broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class MqttAccess(msgspec.Struct, frozen=True, rename="camel"):
    """Addresses of the broker, the plant's client id and user name, and where a TOKEN plant requests its tokens."""

    broker: str
    port: int
    tls: bool
    client_id: str
    topics: Topics
    username: str | None = None
    token_url: str | None = None
    addresses: tuple[Address, ...] = ()


class ProtocolTerms(msgspec.Struct, frozen=True, rename="camel"):
    """Parameters of the protocol. `qos` and the envelope are fixed by this client's version of the protocol."""

    keep_alive_seconds: int = 60
    max_message_bytes: int = MAX_MESSAGE_BYTES


class Security(msgspec.Struct, frozen=True, rename="camel"):
    """Certificates as PEM text and the signing secret as 64 hex digits. None for values that the method does not use."""

    hmac_secret: str
    ca_cert: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return "Security(…)"  # secrets stay out of logs and tracebacks


class Package(msgspec.Struct, frozen=True, rename="camel"):
    """A plant's credentials and addresses, as returned by `POST /plants/{id}/provision`."""

    plant_id: str
    auth_method: AuthMethod
    mqtt: MqttAccess
    security: Security
    protocol: ProtocolTerms = ProtocolTerms()

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a package from a file.

        Raises:
            PackageError: The file cannot be read or the package is incomplete.
        """
        try:
            return cls.parse(Path(path).read_bytes())
        except OSError as error:
            raise PackageError(f"{path}: {error.strerror}") from error
        except PackageError as error:
            raise PackageError(f"{path}: {error}") from error

    @classmethod
    def parse(cls, text: bytes | str) -> Self:
        """Parse a package from JSON text.

        Raises:
            PackageError: The text is not a package or the package is incomplete.
        """
        try:
            package = msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PackageError(f"not a provisioning package: {error}") from error
        package._check()
        return package

    def _check(self) -> None:
        try:
            signature.key_from_hex(self.security.hmac_secret)
        except ValueError:
            raise PackageError("security.hmacSecret must be 64 hexadecimal digits") from None
        match self.auth_method:
            case AuthMethod.MTLS:
                if not (self.security.client_cert and self.security.client_key and self.mqtt.tls):
                    raise PackageError("an MTLS package needs security.clientCert, security.clientKey and mqtt.tls")
            case AuthMethod.TOKEN:
                if not self.mqtt.tls:
                    raise PackageError("a TOKEN package needs mqtt.tls: the token must not be sent unencrypted")
            case AuthMethod.PASSWORD:
                if not self.security.password:
                    raise PackageError("a PASSWORD package needs security.password")

    @property
    def signing_key(self) -> bytes:
        """The 32-byte key that signs and verifies."""
        return signature.key_from_hex(self.security.hmac_secret)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses of the broker, in the order in which to try them.

        If `mqtt.addresses` lacks `mqtt.broker` and `mqtt.port`, the package is older or was changed by hand. Then these are the
        only address.
        """
        own = Address(self.mqtt.broker, self.mqtt.port)
        return self.mqtt.addresses if own in self.mqtt.addresses else (own,)

    @property
    def user_name(self) -> str | None:
        """The user name of the login; None if the certificate identifies the plant."""
        return None if self.auth_method is AuthMethod.MTLS else self.mqtt.username or self.plant_id

    def tls_context(self) -> ssl.SSLContext | None:
        """Return a TLS context with the package's CA and, for MTLS, its certificate; None for a plain listener.

        OpenSSL reads a key only from a path. The key is written to a temporary file that only its owner can read and that is
        deleted before this returns.

        Raises:
            PackageError: A certificate or the key is unreadable.
        """
        if not self.mqtt.tls:
            return None
        try:
            context = ssl.create_default_context(cadata=self.security.ca_cert)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.auth_method is AuthMethod.MTLS:
                _load_certificate(context, f"{self.security.client_cert}\n{self.security.client_key}\n")
        except (ssl.SSLError, ValueError) as error:
            raise PackageError(f"a certificate or key of the package is unusable: {error}") from error
        return context


def _load_certificate(context: ssl.SSLContext, pem: str) -> None:
    handle, path = tempfile.mkstemp(prefix="gridfleet-", suffix=".pem")  # mkstemp uses mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(pem)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
