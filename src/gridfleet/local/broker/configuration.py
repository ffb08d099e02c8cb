"""Configuration of a private RabbitMQ node: listeners, TLS, authorisation, limits and the service's account."""

import base64
import hashlib
import secrets
from collections.abc import Iterator
from typing import Final

from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.plugins import SESSIONS_BACKEND

__all__ = ["ACCOUNT", "ADVANCED", "NODE_NAME", "TLS_CIPHERS", "configuration_lines", "definitions", "reachable_host"]

ACCOUNT: Final = "_gridfleet"
"""The service's account. No organisation's slug can begin with an underscore."""

NODE_NAME: Final = "gridfleet@localhost"
_PLANTS_VHOST: Final = "plants"

TLS_CIPHERS: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
)
"""Ciphers of TLS 1.3, then of TLS 1.2, with forward secrecy and authenticated encryption only.

`deploy/rabbitmq` has the same list.
"""

# Not in rabbitmq.conf: its keys differ between versions of RabbitMQ, and an unknown key stops the node. From 4.1 on, the
# maximum packet size must not exceed the maximum message size (max_message_size), or the node stops as well. Without sessions,
# connections with AMQP 1.0 are refused (docs/decisions/0214). The other settings limit what a client can keep in the broker's
# memory: consumers, responses of which it reads nothing for a minute (with a larger send buffer, slow reading would look like
# no reading), and what has been decrypted while the broker does not read the client (by default 100 times what the socket's
# buffer holds).
ADVANCED: Final = """[
  {ssl, [{internal_active_n, 4}]},
  {rabbitmq_mqtt, [
    {subscription_ttl, 86400000},
    {max_session_expiry_interval_seconds, 86400},
    {max_packet_size_authenticated, 1048576}
  ]},
  {rabbit, [
    {consumer_max_per_channel, 100},
    {session_max_per_connection, 0},
    {tcp_listen_options, [
      {backlog, 128}, {nodelay, true}, {linger, {true, 0}}, {exit_on_close, false},
      {sndbuf, 65536}, {send_timeout, 60000}, {send_timeout_close, true}
    ]}
  ]}
].
"""


def configuration_lines(settings: Settings, auth_backend: str) -> Iterator[str]:
    """Yield the lines of `rabbitmq.conf`. `auth_backend` is the plugin that sends login requests to the service."""
    home = settings.home.resolve()
    certificates = home / "ca"
    secret = settings.secret("internal_secret").get_secret_value()
    questions = f"http://{reachable_host(settings.internal_host)}:{settings.internal_port}/{secret}/broker"
    bound = _bracketed(settings.mqtt_bind)
    yield f"listeners.tcp.1 = 127.0.0.1:{settings.amqp_port}"
    yield f"listeners.ssl.1 = {bound}:{settings.amqps_port}"
    yield f"mqtt.listeners.tcp.1 = {bound}:{settings.mqtt_port}" if settings.mqtt_port else "mqtt.listeners.tcp = none"
    yield f"mqtt.listeners.ssl.1 = {bound}:{settings.mqtts_port}"
    yield "management.tcp.ip = 127.0.0.1"
    yield f"management.tcp.port = {settings.management_port}"
    yield "prometheus.tcp.ip = 127.0.0.1"
    yield f"prometheus.tcp.port = {settings.broker_metrics_port}"

    yield f"ssl_options.cacertfile = {certificates / 'ca.pem'}"
    yield f"ssl_options.certfile = {certificates / 'server.pem'}"
    yield f"ssl_options.keyfile = {certificates / 'server.key'}"
    yield "ssl_options.versions.1 = tlsv1.3"
    yield "ssl_options.versions.2 = tlsv1.2"
    for number, cipher in enumerate(TLS_CIPHERS, start=1):
        yield f"ssl_options.ciphers.{number} = {cipher}"
    yield "ssl_options.honor_cipher_order = true"
    # All listeners share these options. A presented certificate is verified; the login request decides who must present
    # one.
    yield "ssl_options.verify = verify_peer"
    yield "ssl_options.fail_if_no_peer_cert = false"
    yield "ssl_cert_login_from = distinguished_name"

    yield "auth_mechanisms.1 = PLAIN"
    yield "auth_backends.1 = internal"
    # Login requests are not cached, so that revocation is immediate. Permissions of a connection are cached for a minute, by
    # the backend `cache`, which the module of the plugin calls.
    yield f"auth_backends.2.authn = {auth_backend}"
    yield f"auth_backends.2.authz = {SESSIONS_BACKEND}"
    yield f"auth_cache.cached_backend = {auth_backend}"
    yield "auth_cache.cache_ttl = 60000"
    # The default would send passwords in URLs.
    yield "auth_http.http_method = post"
    for question in ("user", "vhost", "resource", "topic"):
        yield f"auth_http.{question}_path = {questions}/{question}"

    yield f"mqtt.vhost = {_PLANTS_VHOST}"
    yield "mqtt.exchange = amq.topic"
    yield "mqtt.allow_anonymous = false"
    yield "mqtt.ssl_cert_login = true"
    yield "mqtt.prefetch = 20"
    # No client may subscribe to a topic that plants publish to, and retained messages would stay in memory for ever.
    yield "mqtt.retained_message_store = rabbit_mqtt_retained_msg_store_noop"

    yield f"load_definitions = {home / 'broker' / 'definitions.json'}"
    # Single-node cluster: without this, RabbitMQ 4.0 warns on its first start that its own node is missing from the list.
    yield f"cluster_formation.classic_config.nodes.1 = {NODE_NAME}"
    yield "heartbeat = 30"
    yield "channel_max = 128"
    yield "max_message_size = 1048576"
    yield "vm_memory_high_watermark.relative = 0.4"
    # Quorum queues keep the newest part of their common log in memory, by default up to 512 MiB. A memory alarm would not end:
    # it blocks the publishers that would have to fill the log before its memory is freed.
    yield "raft.wal_max_size_bytes = 67108864"
    # A plant's connection consists of thirty small processes that are mostly idle and hardly ever collect their garbage.
    # The broker's memory would grow for hours. With this option the broker collects their garbage once a minute.
    yield "background_gc_enabled = true"
    yield "background_gc_target_interval = 60000"
    yield "disk_free_limit.absolute = 200MB"
    # Connections are listed and closed over the management API. Metrics come from the Prometheus port, which needs no
    # tables per connection. Queue totals: `/api/queues?disable_stats=true&enable_queue_totals=true`.
    yield "management_agent.disable_metrics_collector = true"
    yield "log.console = true"
    yield "log.console.level = warning"
    # The gateway reads the errors of plants' channels from this exchange: amqp/plant_channels.py.
    yield "log.exchange = true"
    yield "log.exchange.level = error"
    yield "log.file = node.log"
    yield "log.file.level = info"
    yield "log.file.rotation.size = 10485760"
    yield "log.file.rotation.count = 3"


def definitions(password: str) -> dict[str, object]:
    """Return the definitions that the node loads when it starts: the service's account and its vhosts."""
    salt = secrets.token_bytes(4)
    digest = hashlib.sha256(salt + password.encode()).digest()
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    vhosts = ("/", _PLANTS_VHOST)
    return {
        "users": [
            {
                "name": ACCOUNT,
                "password_hash": base64.b64encode(salt + digest).decode(),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ["administrator"],
                "limits": {},
            }
        ],
        "vhosts": [{"name": vhost} for vhost in vhosts],
        "permissions": [{"user": ACCOUNT, "vhost": vhost, **everything} for vhost in vhosts],
    }


def reachable_host(host: str) -> str:
    """Return the address to connect to for a listener on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared, not bound


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
