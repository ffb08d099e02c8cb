"""The broker's questions (rabbitmq_auth_backend_http): may this client log in, enter, use this, publish there.

Answers are plain text: `allow` or `deny`. Reasons go to the log, never to the client.
"""

from collections.abc import Mapping

import structlog

from gridfleet.api._http import Call, internal_endpoint
from gridfleet.domains.plants.mqtt_access import decisions
from gridfleet.kernel import metrics

log = structlog.get_logger(__name__)

ALLOW = "allow"
DENY = "deny"


@internal_endpoint("POST", "/broker/user")
async def user(call: Call, form: Mapping[str, str]) -> str:
    """A login. No `password` at all means a client certificate; an empty one is an empty password."""
    name = decisions.parse_plant_name(form.get("username", ""))
    if name is None:
        metrics.BROKER_LOGINS.labels("unknown", "refused").inc()
        return DENY
    async with call.state.database.transaction() as db:
        refusal = await decisions.login(db, call.state.plant_tokens, name, form.get("password"))
    metrics.BROKER_LOGINS.labels("plant", "refused" if refusal else "accepted").inc()
    if refusal:
        log.info("plant refused", plant_id=str(name.plant_id), reason=refusal.reason)
    return DENY if refusal else ALLOW


@internal_endpoint("POST", "/broker/vhost")
async def vhost(call: Call, form: Mapping[str, str]) -> str:
    """Entering a vhost, with a client id of one's own."""
    name = decisions.parse_plant_name(form.get("username", ""))
    if name is None:
        return DENY
    async with call.state.database.transaction() as db:
        allowed = await decisions.may_enter_vhost(db, name, form.get("vhost", ""), form.get("client_id"))
    if not allowed:
        log.info("plant refused", plant_id=str(name.plant_id), reason="vhost, state or client id", ip=form.get("ip"))
    return ALLOW if allowed else DENY


@internal_endpoint("POST", "/broker/resource")
async def resource(call: Call, form: Mapping[str, str]) -> str:
    """Using a queue or exchange."""
    name = decisions.parse_plant_name(form.get("username", ""))
    if name is None:
        return DENY
    allowed = decisions.may_use_resource(
        name, form.get("vhost", ""), form.get("resource", ""), form.get("name", ""), form.get("permission", "")
    )
    return ALLOW if allowed else DENY


@internal_endpoint("POST", "/broker/topic")
async def topic(call: Call, form: Mapping[str, str]) -> str:
    """Publishing to or subscribing at a topic."""
    name = decisions.parse_plant_name(form.get("username", ""))
    if name is None:
        return DENY
    allowed = decisions.may_use_topic(
        name, form.get("vhost", ""), form.get("name", ""), form.get("permission", ""), form.get("routing_key", "")
    )
    return ALLOW if allowed else DENY
