"""The broker address for a partner's program."""

from urllib.parse import quote

from support.clients.fleet_under_test import JsonObject
from support.servers.running_stack import RunningStack


def address_of(stack: RunningStack, slug: str, created: JsonObject) -> str:
    """Return the AMQPS address built from the create response of a key, as documented."""
    key, vhost = quote(created["key"], safe=""), created["apiKey"]["vhost"]
    return f"amqps://{slug}:{key}@localhost:{stack.ports['amqps_port']}/{vhost}"
