"""Every setting of the service, read from `GRIDFLEET_*` environment variables.

`docs/settings.md` is generated from this file. Lists are comma separated.
"""

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gridfleet.kernel.addresses import parse_address
from gridfleet.kernel.outages import MissingSetting
from gridfleet.kernel.security.server_trust import with_authority

__all__ = ["Settings", "unknown_variables"]

_Port = Annotated[int, Field(ge=1, le=65_535)]
_PortOrNone = Annotated[int, Field(ge=0, le=65_535)]


_PREFIX: Final = "GRIDFLEET_"
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.\-]*[A-Za-z0-9])?")
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.\-\[\]:]+")
_OTHER_VARIABLES: Final = {"API"}
"""Variables that only `gridfleet simulate` reads."""
_URLS: Final = {
    "database_url": (("postgresql", "postgres"), "postgresql://user:password@host:port/database"),
    "database_read_url": (("postgresql", "postgres"), "postgresql://user:password@host:port/database"),
    "broker_url": (("amqp", "amqps"), "amqp://user:password@host:port, or amqps:// for TLS"),
    "broker_management_url": (("http", "https"), "http://user:password@host:port, or https:// for TLS"),
    "public_url": (("http", "https"), "https://host or http://host, the address that users open in a browser"),
}
"""Allowed schemes of a setting that is a URL, and its form for the error text."""


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Settings(BaseSettings):
    """The settings of a process. Secrets that are not set are generated at the first start and stored below `home`."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_ignore_empty=True, frozen=True, extra="ignore")

    home: Path = Field(Path(".gridfleet"), description="Folder of all local state: databases, keys, certificates, logs.")
    environment: Literal["development", "production"] = Field(
        "development",
        description="With `production`, `/health/ready` requires the internal secret, and `gridfleet doctor` warns if there is"
        " no mail server.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Lowest level that is logged.")
    log_format: Literal["console", "json"] = Field(
        "console", description="`json` writes one JSON object per line, for log collectors."
    )

    http_host: str = Field("127.0.0.1", description="Address that the REST API listens on.")
    http_port: _Port = Field(8080, description="Port of the REST API.")
    http_certificate: Path | None = Field(
        None,
        description="Certificate chain (PEM) of the REST API, read when `serve` starts. With it, the API uses TLS 1.2 or newer;"
        " without it, plain HTTP.",
    )
    http_key: Path | None = Field(
        None, description="Private key (PEM) of that certificate, not encrypted; required with `GRIDFLEET_HTTP_CERTIFICATE`."
    )
    http_connections: int = Field(
        8_192, ge=16, description="Maximum number of connections of a listener; further ones wait until another one ends."
    )
    http_drain_seconds: int = Field(
        0,
        ge=0,
        le=10,
        description="How long `serve` takes requests after SIGTERM while `/api/v1/health` returns 503, so that a load balancer "
        "sends new requests to another process. The listeners close afterwards. At most 10.",
    )
    public_url: str = Field(
        "",
        description="Base URL of links and cookies; default `http://localhost:{http_port}`, with `GRIDFLEET_HTTP_CERTIFICATE`"
        " `https://`.",
    )
    internal_host: str = Field(
        "127.0.0.1",
        description="Address of the internal listener (the broker's authorisation requests, `/metrics`). Never make it public.",
    )
    internal_port: _Port = Field(8081, description="Port of the internal listener.")
    internal_secret: SecretStr | None = Field(
        None, description="Secret path of the internal listener and value of `x-internal-auth`; generated at the first start."
    )

    metrics_port: _PortOrNone = Field(
        8082,
        description="Port at `GRIDFLEET_INTERNAL_HOST` where a gateway, jobs or ingest process serves `/metrics`; 0 turns it"
        " off. `gridfleet up` gives this port to the gateway, and those that follow to jobs and ingest;"
        " `gridfleet serve --workers` gives it and those that follow to its workers.",
    )
    otlp_endpoint: str = Field(
        "",
        description="Collector of traces (OTLP over HTTP), such as `http://localhost:4318`; if empty, there are no traces.",
    )

    database_url: SecretStr | None = Field(None, description="PostgreSQL to use instead of the embedded one.")
    database_read_url: SecretStr | None = Field(
        None, description="Replica of that PostgreSQL, from which the history of telemetry is read."
    )
    database_read_lag_seconds: float = Field(
        10,
        ge=2,
        description="How far that replica may lag; beyond it, history is read from `GRIDFLEET_DATABASE_URL`. At least 2.",
    )
    database_pool_size: int = Field(10, ge=2, description="Maximum database connections for the requests of one `serve`.")
    broker_url: SecretStr | None = Field(
        None, description="RabbitMQ (`amqp://user:password@host:port`) to use instead of the private node."
    )
    broker_management_url: SecretStr | None = Field(
        None,
        description="Management API of that RabbitMQ (`http://user:password@host:port`); required with `GRIDFLEET_BROKER_URL`.",
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Redis or Valkey (`redis://user:password@host:port/0`) for cache and rate limits, which are in memory"
        " without it. Required for more than one `gridfleet serve`.",
    )
    cache_megabytes: int = Field(
        64, ge=0, description="Maximum memory of the cache in one process without Redis; 0 turns the cache off."
    )

    ca_file: Path | None = Field(
        None,
        description="Certificates (PEM) of the authorities against which PostgreSQL, RabbitMQ, Redis and the mail server are"
        " verified over TLS; default: the system's. With it, PostgreSQL's certificate and name are verified unless its"
        " URL has an `sslmode`.",
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
    mqtt_host: str = Field(
        "localhost",
        description="Host name that plants use to reach the broker; written into the server certificate and provisioning"
        " packages.",
    )
    mqtt_further_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Further host names of the broker, such as those of a cluster's nodes, at the same ports. Clients of plants"
        " and partners try them, in this order, after `GRIDFLEET_MQTT_HOST`. Written into the server certificate, provisioning"
        " packages and the connection details of partners.",
    )
    mqtt_bind: str = Field("127.0.0.1", description="Address that the private node's MQTT and AMQPS listeners bind to.")
    broker_queue_type: Literal["auto", "classic", "quorum"] = Field(
        "auto",
        description="Type of the ingest queues, of `unrouted` and of partners' queues. `auto`: quorum on a cluster of RabbitMQ"
        " 3.12 or newer, else classic. Sessions of plants follow the broker's `mqtt.durable_queue_type`.",
    )

    keys: SecretStr | None = Field(
        None,
        description="Keyring `1:<64 hex>,2:<64 hex>`. The highest version encrypts, or the one with the suffix `:current`."
        " Generated at the first start.",
    )
    admin_email: str | None = Field(
        None, description="E-mail address of the first SuperAdmin, which is created at start if there is none."
    )
    admin_password: SecretStr | None = Field(
        None, description="Password of the first SuperAdmin; if not set, it is generated and shown once."
    )
    rate_limits: Literal["on", "off"] = Field("on", description="`off` turns rate limits off, for load tests.")
    login_per_address_per_minute: int = Field(300, ge=1, description="Maximum logins per minute from one address.")
    login_per_account_per_minute: int = Field(60, ge=1, description="Maximum logins per minute to one account.")
    account_per_address_per_minute: int = Field(
        300, ge=1, description="Maximum calls per minute of other auth and account endpoints from one address."
    )
    tokens_per_address_per_minute: int = Field(
        1_200, ge=1, description="Maximum requests per minute of plants for MQTT tokens from one address."
    )
    tokens_per_plant_per_minute: int = Field(6, ge=1, description="Maximum requests per minute of one plant for MQTT tokens.")
    mqtt_token_minutes: int = Field(24 * 60, ge=1, description="Lifetime of a plant's MQTT token.")
    signature_window_seconds: int = Field(
        600, ge=1, description="Maximum difference between a message's `sentAt` and the service's clock."
    )

    smtp_url: SecretStr | None = Field(
        None,
        description="Mail server: `smtp://user:password@host:587` or `smtps://host:465`. Without it, mails are written as"
        " `.eml` files to `{home}/mail`.",
    )
    mail_from: str = Field("", description="Sender of mails; default `Gridfleet <no-reply@{host of the public URL}>`.")
    expo_url: str = Field("https://exp.host", description="Push service with Expo's API.")
    expo_access_token: SecretStr | None = Field(
        None, description="Access token for the push service, if the Expo project requires one."
    )
    sms_url: SecretStr | None = Field(
        None,
        description="SMS gateway as an Apprise URL with `{phone}` in place of the receiver's number, such as"
        " `twilio://sid:token@from/{phone}`.",
    )
    esm_allow_private: bool = Field(
        False, description="Whether an ESM may have a private address. Only for closed networks whose members are all trusted."
    )
    alert_days: int = Field(1_825, ge=1, description="Days for which alerts are kept after they have been resolved.")
    audit_days: int = Field(730, ge=1, description="Days for which audit events are kept.")
    command_days: int = Field(
        730,
        ge=1,
        description="Days for which plant commands and partner commands are kept after they have ended, and plans after they"
        " were sent to the ESM.",
    )
    csp_report_days: int = Field(
        30, ge=1, description="Days for which browsers' CSP reports are kept. Anyone can send such reports."
    )
    csp_reports_per_address_per_minute: int = Field(10, ge=1, description="Maximum CSP reports per minute from one address.")
    csp_reports_per_minute: int = Field(60, ge=1, description="Maximum CSP reports per minute from all addresses together.")
    trusted_proxies: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = Field(
        (),
        description="Networks of the reverse proxies in front of the REST API, such as `10.0.0.0/8,::1/128`. The service trusts"
        " the client addresses that they send in `x-forwarded-for`.",
    )

    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Origins whose pages may call the REST API from a browser, such as `https://app.example.com`, or `*` for"
        " all. Never with cookies: such a page sends a token or an API key in a header. If empty, only the service's"
        " own pages may.",
    )

    ingest_shards: int = Field(
        8,
        ge=1,
        le=64,
        description="Number of queues that plants' messages are distributed to. `ingest` adds queues when it is raised. A lower"
        " number has no effect, because existing queues stay in use. At most 64.",
    )
    ingest_processes: Annotated[int, Field(ge=1)] = Field(
        default_factory=lambda: max(1, _cores() // 2),
        description="Number of ingest processes that `gridfleet up` starts, at most `GRIDFLEET_INGEST_SHARDS`.",
    )
    ingest_batch_messages: int = Field(2_000, ge=1, description="Maximum number of messages in one ingest transaction.")
    ingest_batch_milliseconds: int = Field(
        50, ge=1, description="Minimum time between the starts of batches that are not full."
    )
    telemetry_raw_days: int = Field(400, ge=1, description="Days for which values are kept as measured.")
    telemetry_minute_days: int = Field(30, ge=1, description="Days for which 1-minute roll-ups are kept.")
    telemetry_quarter_days: int = Field(
        1096, ge=1, description="Days for which 15-minute roll-ups are kept; hourly and daily ones are kept without limit."
    )
    roll_up_connections: int = Field(
        1,
        ge=1,
        le=64,
        description="Number of database connections on which roll-ups are computed at the same time. At most 64.",
    )

    @field_validator("home")
    @classmethod
    def _with_folder_of_user(cls, home: Path) -> Path:
        """Replace `~`, which a shell leaves as it is in a file of variables."""
        return Path(os.path.expanduser(home))

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [ip_network(part.strip()) for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: Any) -> Any:
        origins = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else list(value)
        for origin in origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError("must be * or origins such as https://app.example.com, in lower case and without a path")
        if "*" in origins and len(origins) > 1:
            raise ValueError("must be * alone, or a list of origins")
        return origins

    @field_validator("mqtt_further_hosts", mode="before")
    @classmethod
    def _split_hosts(cls, value: Any) -> Any:
        hosts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else list(value)
        for host in hosts:
            if not _HOST.fullmatch(host) and parse_address(host) is None:
                raise ValueError("must be host names or IP addresses, without ports")
        return hosts

    @field_validator("database_url", "database_read_url", "broker_url", "broker_management_url", "public_url")
    @classmethod
    def _check_url(cls, value: SecretStr | str | None, info: ValidationInfo) -> SecretStr | str | None:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        schemes, form = _URLS[str(info.field_name)]
        # libpq also accepts `host=… dbname=…`.
        keywords = "postgresql" in schemes and "=" in str(text)
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
                    "must be redis://host:port, rediss://host:port or unix:///path; valkey is accepted in place of redis"
                )
        return value

    @model_validator(mode="after")
    def _check_http_tls(self) -> "Settings":
        if (self.http_certificate is None) != (self.http_key is None):
            raise ValueError("GRIDFLEET_HTTP_CERTIFICATE and GRIDFLEET_HTTP_KEY must be set together")
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
        """Return `mail_from`, or an address at the public host."""
        return self.mail_from or f"Gridfleet <no-reply@{urlsplit(self.base_url).hostname}>"

    @cached_property
    def base_url(self) -> str:
        """Return `public_url` without a trailing slash, or the address on this machine."""
        scheme = "http" if self.http_certificate is None else "https"
        return self.public_url.rstrip("/") or f"{scheme}://localhost:{self.http_port}"

    @cached_property
    def broker_hosts(self) -> tuple[str, ...]:
        """Return the host names of the broker for plants and partners, in the order in which clients try them."""
        return tuple(dict.fromkeys((self.mqtt_host, *self.mqtt_further_hosts)))

    @property
    def sandbox_esm_url(self) -> str:
        """Return the URL of the sandbox ESM, for the service and for other clients."""
        return f"{self.base_url}/api/v1/svc-esm"

    def secret(self, name: str) -> SecretStr:
        """Return a secret setting, or the content of its file in `home/secrets`, which `gridfleet up` creates.

        With `ca_file`, the URL of a server also names the authorities that its certificate is verified against.

        Raises:
            MissingSetting: Neither the setting nor the file exists.
        """
        value = getattr(self, name)
        if value is not None:
            text: str = value.get_secret_value()
            if self.ca_file is not None and name.endswith("_url"):
                text = with_authority(text, self.ca_file)
            return SecretStr(text)
        path = self.home / "secrets" / name
        try:
            return SecretStr(path.read_text().strip())
        except FileNotFoundError:
            hint = "" if name.endswith("_url") else f" and {path} does not exist"
            raise MissingSetting(f"GRIDFLEET_{name.upper()} is not set{hint}: set it, or run `gridfleet up`") from None


def unknown_variables(environment: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for every variable that is named like a setting and is not one, such as a misspelt setting."""
    known = {name.upper() for name in Settings.model_fields} | _OTHER_VARIABLES
    for variable in sorted(environment):
        prefix, name = variable[: len(_PREFIX)].upper(), variable[len(_PREFIX) :].upper()
        if prefix == _PREFIX and name not in known:
            close = difflib.get_close_matches(name, known, 1)
            yield f"{variable} is not a setting" + (f" (did you mean {_PREFIX}{close[0]}?)" if close else "")
