"""Every setting of the service, read from `GRIDFLEET_*` environment variables.

`docs/settings.md` is generated from this file. Lists are comma separated.
"""

import os
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gridfleet.kernel.security.server_trust import with_authority
from gridfleet.kernel.surroundings import MissingSetting

__all__ = ["Settings"]

_Port = Annotated[int, Field(ge=1, le=65_535)]
_PortOrNone = Annotated[int, Field(ge=0, le=65_535)]


_URLS: Final = {
    "database_url": (("postgresql", "postgres"), "postgresql://user:password@host:port/database"),
    "broker_url": (("amqp", "amqps"), "amqp://user:password@host:port, or amqps:// for TLS"),
    "broker_management_url": (("http", "https"), "http://user:password@host:port, or https:// for TLS"),
    "public_url": (("http", "https"), "https://host or http://host, as people write it into a browser"),
}
"""What a setting that is an address begins with, and how it is written."""


class Settings(BaseSettings):
    """The process's settings. Secrets left out are made on first start and kept below `home`."""

    model_config = SettingsConfigDict(env_prefix="GRIDFLEET_", frozen=True, extra="ignore")

    home: Path = Field(Path(".gridfleet"), description="Folder of all local state: databases, keys, certificates, logs.")
    environment: Literal["development", "production"] = Field(
        "development", description="`production` gates `/health/ready` behind the internal secret."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Lowest level that is logged.")
    log_format: Literal["console", "json"] = Field("console", description="`json` for log collectors.")

    http_host: str = Field("127.0.0.1", description="Address the REST API listens on.")
    http_port: _Port = Field(8080, description="Port of the REST API.")
    http_certificate: Path | None = Field(
        None, description="Certificate chain (PEM) of the REST API, which then speaks TLS 1.2 or newer; plain HTTP without."
    )
    http_key: Path | None = Field(None, description="Its private key (PEM), not encrypted; needed with `http_certificate`.")
    http_connections: int = Field(
        8_192, ge=16, description="Connections that a listener holds at most; further ones wait to be accepted."
    )
    public_url: str = Field("", description="Base of links and cookies; default `http://localhost:{http_port}`.")
    internal_host: str = Field("127.0.0.1", description="Address of the internal listener (broker questions). Never public.")
    internal_port: _Port = Field(8081, description="Port of the internal listener.")
    internal_secret: SecretStr | None = Field(
        None, description="Secret path of the internal listener and value of `x-internal-auth`; made on first start."
    )

    metrics_port: _PortOrNone = Field(
        0,
        description="Port, at `internal_host`, where ingest, gateway and jobs serve `/metrics` on a machine without `serve`; 0:"
        " nowhere.",
    )
    otlp_endpoint: str = Field(
        "", description="Collector of traces (OTLP over HTTP), such as `http://localhost:4318`; no traces without."
    )

    database_url: SecretStr | None = Field(None, description="PostgreSQL to use instead of the embedded one.")
    database_pool_size: int = Field(10, ge=2, description="Connections of one process at most.")
    broker_url: SecretStr | None = Field(
        None, description="RabbitMQ (`amqp://user:password@host:port`) to use instead of the private node."
    )
    broker_management_url: SecretStr | None = Field(
        None, description="Its management API (`http://user:password@host:port`); needed with `broker_url`."
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Redis or Valkey (`redis://user:password@host:port/0`) for cache and rate limits; in memory without. Needed"
        " for more than one `gridfleet serve`.",
    )
    cache_megabytes: int = Field(
        64, ge=0, description="Memory of the cache in one process at most, when there is no Redis; 0 for none."
    )

    ca_file: Path | None = Field(
        None,
        description="Certificates (PEM) below which PostgreSQL, RabbitMQ, Redis and the mail server must stand when they are"
        " reached over TLS; the system's without. With it, PostgreSQL's certificate and name are verified unless its URL has"
        " an `sslmode` of its own.",
    )

    amqp_port: _Port = Field(5682, description="Loopback AMQP port of the private broker node.")
    amqps_port: _Port = Field(5671, description="AMQPS port for partners.")
    mqtt_port: _PortOrNone = Field(
        1883, description="Plain MQTT port (PASSWORD plants on trusted networks); 0 leaves it closed."
    )
    mqtts_port: _Port = Field(8883, description="MQTT over TLS port.")
    management_port: _Port = Field(15682, description="Loopback management port of the private broker node.")
    broker_metrics_port: _Port = Field(15684, description="Loopback Prometheus port of the private broker node.")
    broker_dist_port: _Port = Field(25682, description="Loopback Erlang distribution port of the private broker node.")
    epmd_port: _Port = Field(4379, description="Loopback port of the private broker node's port mapper.")
    mqtt_host: str = Field("localhost", description="Host name that plants use to reach the broker; in the server certificate.")
    mqtt_bind: str = Field("127.0.0.1", description="Address the private node's MQTT and AMQPS listeners bind to.")
    broker_queue_type: Literal["auto", "classic", "quorum"] = Field(
        "auto",
        description="Type of the ingest queues, of `unrouted` and of partners' queues; `auto`: quorum on a cluster of RabbitMQ"
        " 3.12 or newer, else classic. Sessions of plants follow the broker's `mqtt.durable_queue_type`.",
    )

    keys: SecretStr | None = Field(
        None,
        description="Keyring `1:<64 hex>,2:<64 hex>`; the highest encrypts, or the one with `:current` behind it. Made on first"
        " start.",
    )
    admin_email: str | None = Field(None, description="First SuperAdmin; made at start when there is none.")
    admin_password: SecretStr | None = Field(None, description="Its password; generated and shown once without.")
    rate_limits: Literal["on", "off"] = Field("on", description="`off` for load tests.")
    login_per_address_per_minute: int = Field(300, ge=1, description="Logins from one address.")
    login_per_account_per_minute: int = Field(60, ge=1, description="Logins to one account.")
    account_per_address_per_minute: int = Field(
        300, ge=1, description="Calls of other auth and account endpoints from one address."
    )
    mqtt_token_minutes: int = Field(24 * 60, ge=1, description="Life of a plant's MQTT token.")
    signature_window_seconds: int = Field(600, ge=1, description="How far a message's `sentAt` may lie from our clock.")

    smtp_url: SecretStr | None = Field(
        None,
        description="Mail server: `smtp://user:password@host:587` or `smtps://host:465`. Without it mails are written as"
        " `.eml` files below `{home}/mail`.",
    )
    mail_from: str = Field("", description="Sender of mails; default `Gridfleet <no-reply@{host of the public URL}>`.")
    expo_url: str = Field("https://exp.host", description="Push service of Expo's format.")
    expo_access_token: SecretStr | None = Field(None, description="Its access token, where the Expo project asks for one.")
    sms_url: SecretStr | None = Field(
        None,
        description="SMS gateway as an Apprise URL with `{phone}` in the receiver's place, such as"
        " `twilio://sid:token@from/{phone}`.",
    )
    esm_allow_private: bool = Field(
        False, description="Whether an ESM may have a private address: for closed networks whose members are all trusted."
    )
    audit_days: int = Field(730, ge=1, description="How long audit events are kept.")
    command_days: int = Field(730, ge=1, description="How long commands and partners' orders are kept once they have ended.")
    csp_report_days: int = Field(30, ge=1, description="How long those are kept that browsers report, which anybody can send.")
    csp_reports_per_address_per_minute: int = Field(10, ge=1, description="CSP reports taken from one address.")
    csp_reports_per_minute: int = Field(60, ge=1, description="CSP reports taken from everybody together.")
    trusted_proxies: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = Field(
        (),
        description="Networks of reverse proxies before the REST API, such as `10.0.0.0/8,::1/128`: callers they name in"
        " `x-forwarded-for` are believed.",
    )

    ingest_shards: int = Field(8, ge=1, le=64, description="Queues the plants' messages are spread over.")
    ingest_processes: Annotated[int, Field(ge=1)] = Field(
        default_factory=lambda: max(1, (os.cpu_count() or 1) // 2), description="Ingest processes of `gridfleet up`."
    )
    ingest_batch_messages: int = Field(2_000, ge=1, description="Messages of one ingest transaction at most.")
    telemetry_raw_days: int = Field(400, ge=1, description="How long values are kept as they were measured.")
    telemetry_minute_days: int = Field(30, ge=1, description="How long roll-ups of 1 minute are kept.")
    telemetry_quarter_days: int = Field(
        1096, ge=1, description="How long roll-ups of 15 minutes are kept; those of hours and days stay."
    )
    ingest_batch_milliseconds: int = Field(50, ge=1, description="How long a batch waits for more messages.")

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [ip_network(part.strip()) for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("database_url", "broker_url", "broker_management_url", "public_url")
    @classmethod
    def _check_url(cls, value: SecretStr | str | None, info: ValidationInfo) -> SecretStr | str | None:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        schemes, form = _URLS[str(info.field_name)]
        # libpq also takes `host=… dbname=…`.
        keywords = info.field_name == "database_url" and "=" in str(text)
        if text and not keywords and (urlsplit(text).scheme not in schemes or "//" not in text):
            raise ValueError(f"must be {form}")
        return value

    @field_validator("redis_url")
    @classmethod
    def _check_redis_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parts = urlsplit(value.get_secret_value())
            if parts.scheme not in ("redis", "rediss", "valkey", "valkeys", "unix") or not (parts.hostname or parts.path):
                raise ValueError(
                    "must be redis://host:port, rediss://host:port or unix:///path, valkey in place of redis if liked"
                )
        return value

    @model_validator(mode="after")
    def _check_http_tls(self) -> "Settings":
        if (self.http_certificate is None) != (self.http_key is None):
            raise ValueError("GRIDFLEET_HTTP_CERTIFICATE and GRIDFLEET_HTTP_KEY go together")
        return self

    @field_validator("smtp_url")
    @classmethod
    def _check_smtp_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parts = urlsplit(value.get_secret_value())
            if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
                raise ValueError("must be smtp://host:port or smtps://host:port, with user:password@ before the host if needed")
        return value

    @field_validator("sms_url")
    @classmethod
    def _check_sms_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and "{phone}" not in value.get_secret_value():
            raise ValueError("must contain {phone}, where the receiver's number goes")
        return value

    @cached_property
    def sender(self) -> str:
        """`mail_from`, or an address at the public host."""
        return self.mail_from or f"Gridfleet <no-reply@{urlsplit(self.base_url).hostname}>"

    @cached_property
    def base_url(self) -> str:
        """`public_url`, or the address of a laptop."""
        scheme = "http" if self.http_certificate is None else "https"
        return self.public_url.rstrip("/") or f"{scheme}://localhost:{self.http_port}"

    @property
    def sandbox_esm_url(self) -> str:
        """Where the sandbox ESM is reached, by us as by others."""
        return f"{self.base_url}/api/v1/svc-esm"

    def secret(self, name: str) -> SecretStr:
        """A secret that may not have been set: the setting, else the file `gridfleet up` keeps in `home/secrets`.

        Addresses of servers come with the certificates that those must stand below, where `ca_file` is set.
        """
        value = getattr(self, name)
        if value is not None:
            text: str = value.get_secret_value()
            return SecretStr(text if self.ca_file is None else with_authority(text, self.ca_file))
        path = self.home / "secrets" / name
        try:
            return SecretStr(path.read_text().strip())
        except FileNotFoundError:
            hint = "" if name.endswith("_url") else f" and {path} does not exist"
            raise MissingSetting(f"GRIDFLEET_{name.upper()} is not set{hint}: set it, or run `gridfleet up`") from None
