"""Checks of the broker: AMQP, management API, plugins, and the listener for its authorisation requests."""

import asyncio
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx
from aiormq.exceptions import AMQPError

from gridfleet.cli.doctor.database import check_clock
from gridfleet.cli.doctor.models import Examination, Finding, fail, ok, reason, warn
from gridfleet.domains.plants.topology import INGEST_EXCHANGE, PLANTS_VHOST
from gridfleet.kernel.broker.connection import LOG_EXCHANGE, LOG_VHOST, open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.broker.probe import PROBE_PREFIX
from gridfleet.local.broker.configuration import reachable_host
from gridfleet.local.broker.plugins import BOUNDS_PLUGIN

__all__ = ["bounds_findings", "check_auth_listener", "check_broker"]

_SECONDS: Final = 10
_DEFAULT_USER: Final = "guest"
"""The administrator that RabbitMQ creates at its first start if it has no definitions yet."""
_OLDEST: Final = (3, 10)
_PLUGIN_EXCHANGES: Final = {"rabbitmq_consistent_hash_exchange": "x-consistent-hash"}
"""Plugins by the exchange type that they provide."""
_START: Final = "start it (`gridfleet up` starts the private node), and check GRIDFLEET_BROKER_URL"
_QUESTIONS: Final = {
    "user": {"username": f"{PROBE_PREFIX}listener", "password": "x"},
    "vhost": {"username": f"{PROBE_PREFIX}listener", "vhost": "/", "ip": "127.0.0.1"},
    "resource": {"username": f"{PROBE_PREFIX}listener", "vhost": "/", "resource": "queue", "name": "x", "permission": "read"},
    "topic": {
        "username": f"{PROBE_PREFIX}listener",
        "vhost": "/",
        "resource": "topic",
        "name": "amq.topic",
        "permission": "write",
        "routing_key": "x",
    },
}


async def check_broker(examined: Examination, plugins: Mapping[str, str] = _PLUGIN_EXCHANGES) -> list[Finding]:
    """Check the broker over AMQP, then over the management API: version, plugins, clock."""
    if examined.broker_url is None or examined.management_url is None:
        return [fail("broker", f"not found in {examined.home}", f"{_START} and GRIDFLEET_BROKER_MANAGEMENT_URL")]
    try:
        async with asyncio.timeout(_SECONDS), open_channel(examined.broker_url, PLANTS_VHOST):
            found = [ok("broker", "accepts AMQP, and the service's account can open the vhost")]
    except (AMQPError, OSError, TimeoutError) as error:
        return [fail("broker", f"AMQP fails: {reason(error)}", _START)]
    try:
        async with open_management(examined.management_url) as management:
            overview, date = await management.overview_at()
            now = examined.clock()
            alarms = await management.alarms()
            stopped = await management.stopped_vhosts()
            ingest_queues = await management.bound_queues(PLANTS_VHOST, INGEST_EXCHANGE)
            has_mqtt_channels = await management.has_mqtt_channels()
            nodes, users = await management.cluster_size(), await management.users()
    except httpx.HTTPError as error:
        remedy = "enable the plugin rabbitmq_management, and check GRIDFLEET_BROKER_MANAGEMENT_URL and the account's tag"
        return [*found, fail("broker management", f"does not respond: {reason(error)}", remedy)]
    text = str(overview.get("rabbitmq_version"))
    numbers = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    found.append(
        ok("broker version", f"RabbitMQ {text}, {'one node' if nodes == 1 else f'{nodes} nodes'}")
        if numbers >= _OLDEST
        else fail("broker version", f"RabbitMQ {text}", "upgrade it to 3.10 or newer")
    )
    types = {one["name"] for one in overview.get("exchange_types", [])}
    missing = [plugin for plugin, kind in plugins.items() if kind not in types]
    if missing:
        remedy = f"run `rabbitmq-plugins enable {' '.join(missing)}` at the broker"
        found.append(fail("broker plugins", f"missing: {', '.join(missing)}", remedy))
    else:
        found.append(ok("broker plugins", f"enabled: {', '.join(plugins)}"))
    found += bounds_findings(overview)
    if _DEFAULT_USER in users:
        remedy = f"delete it: `rabbitmqctl delete_user {_DEFAULT_USER}` at the broker"
        found.append(warn("broker users", f"{_DEFAULT_USER}, an administrator whose password is well known", remedy))
    found.append(_alarm_finding(alarms))
    found.append(_vhost_finding(stopped))
    found.append(await _check_ingest(examined.broker_url, ingest_queues))
    if has_mqtt_channels:
        found.append(await _check_error_log(examined.broker_url))
    if date is not None:
        ahead = (now - parsedate_to_datetime(date)).total_seconds()
        found.append(check_clock("clock against the broker", ahead, precision_seconds=1.5))
    return found


def bounds_findings(overview: Mapping[str, Any]) -> list[Finding]:
    """Return the finding about the plugin without which a partner can stop the broker or fill its memory.

    None for a version, such as 3.10, whose overview does not contain the tags of its node.
    """
    if (tags := overview.get("node_tags")) is None:
        return []
    if BOUNDS_PLUGIN in tags:
        return [ok("broker bounds", f"enabled: {BOUNDS_PLUGIN}")]
    remedy = f"build and enable the plugin {BOUNDS_PLUGIN} (docs/deployment.md, The service's plugins for RabbitMQ)"
    return [warn("broker bounds", f"missing: {BOUNDS_PLUGIN}. A partner can stop the broker", remedy)]


def _alarm_finding(alarms: Sequence[tuple[str, str]]) -> Finding:
    if not alarms:
        return ok("broker alarms", "none")
    named = ", ".join(sorted(f"{resource} at {node}" for resource, node in alarms))
    remedies = {
        "memory": "give the broker more memory, or raise vm_memory_high_watermark if the machine has room",
        "disk": "free disk space at the broker",
    }
    advice = "; ".join(text for resource, text in remedies.items() if any(one == resource for one, _ in alarms))
    return fail(
        "broker alarms",
        f"{named}: the broker takes no messages, and plants cannot log in",
        advice or "see the broker's log",
    )


def _vhost_finding(stopped: Sequence[tuple[str, str]]) -> Finding:
    if not stopped:
        return ok("broker vhosts", "run on every node")
    named = ", ".join(sorted(f"{vhost} at {node}" for vhost, node in stopped))
    remedy = "run `rabbitmqctl restart_vhost --vhost NAME` on the node, or restart it"
    return fail("broker vhosts", f"stopped: {named}. The node refuses logins to them", remedy)


async def _check_ingest(broker_url: str, queues: Sequence[str]) -> Finding:
    """Check whether each queue in which messages of plants wait is read."""
    check = "queues of ingest"
    try:
        async with asyncio.timeout(_SECONDS), open_channel(broker_url, PLANTS_VHOST) as channel:
            found = [(queue, await channel.queue_declare(queue, passive=True)) for queue in sorted(queues)]
    except (AMQPError, OSError, TimeoutError) as error:
        return fail(check, f"cannot be examined: {reason(error)}", "see the broker's log")
    if unread := [queue for queue, facts in found if facts.message_count and not facts.consumer_count]:
        return fail(check, f"messages wait that no process reads: {', '.join(unread)}", "start `gridfleet ingest`")
    return ok(check, "each queue with messages is read")


async def _check_error_log(broker_url: str) -> Finding:
    """Check whether the gateway can detect plants whose messages the broker no longer acknowledges."""
    try:
        async with asyncio.timeout(_SECONDS), open_channel(broker_url, LOG_VHOST) as channel:
            await channel.exchange_declare(LOG_EXCHANGE, passive=True)
    except (AMQPError, OSError, TimeoutError) as error:
        remedy = "set `log.exchange = true` in rabbitmq.conf and restart the broker, or upgrade it to 3.12 or newer"
        return fail("broker error log", f"plants with too large a message will hang: {reason(error)}", remedy)
    return ok("broker error log", f"exists: {LOG_EXCHANGE}")


async def check_auth_listener(examined: Examination) -> Finding:
    """Send the broker's four kinds of authorisation request for a user that does not exist.

    The answer to each must be a denial.
    """
    settings = examined.settings
    remedy = "start `gridfleet serve`; GRIDFLEET_INTERNAL_HOST, _PORT and _SECRET must be the same for both"
    try:
        secret = settings.secret("internal_secret").get_secret_value()
    except LookupError as error:
        return fail("authorisation requests", str(error), "set GRIDFLEET_INTERNAL_SECRET")
    base = f"http://{reachable_host(settings.internal_host)}:{settings.internal_port}"
    wrong = []
    try:
        async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as client:
            for question, form in _QUESTIONS.items():
                response = await client.post(f"{base}/{secret}/broker/{question}", data=form)
                if (response.status_code, response.text) != (200, "deny"):
                    wrong.append(f"{question}: {response.status_code}")
    except httpx.HTTPError as error:
        return fail("authorisation requests", f"{base} does not respond: {type(error).__name__}", remedy)
    if wrong:
        return fail("authorisation requests", f"{base} answers wrongly ({', '.join(wrong)})", remedy)
    return ok("authorisation requests", f"{base} answers all four requests")
