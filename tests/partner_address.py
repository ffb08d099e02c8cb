"""Where a partner's program connects."""

from urllib.parse import quote

from fleet_under_test import JsonObject
from running_stack import RunningStack


def address_of(stack: RunningStack, slug: str, created: JsonObject) -> str:
    """The AMQPS address that follows from a key's create response, as the docs say."""
    key, vhost = quote(created["key"], safe=""), created["apiKey"]["vhost"]
    return f"amqps://{slug}:{key}@localhost:{stack.ports['amqps_port']}/{vhost}"
