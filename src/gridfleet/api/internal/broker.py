"""Access decisions for the broker (rabbitmq_auth_backend_http): login, vhost, resource and topic.

A plant logs in with its id. A partner logs in with the slug of its organisation and an API key as password. After the login
the broker sends the id of a partner's key as a tag. Responses are plain text: `allow`, for a partner with the tag of its key,
or `deny`. Reasons are logged and never sent to the client.
"""

from collections.abc import Mapping
from uuid import UUID

import structlog

from gridfleet.api.http import Call, internal_endpoint
from gridfleet.domains.partners.amqp_access import decisions as partners
from gridfleet.domains.plants.mqtt_access import decisions as plants
from gridfleet.domains.plants.mqtt_access.decisions import LoginRefusal, PlantUserName
from gridfleet.kernel import metrics
from gridfleet.kernel.broker.probe import LOGIN_CHANNEL, login_text, probe_user
from gridfleet.kernel.db.notifications import notify

log = structlog.get_logger(__name__)

ALLOW = "allow"
DENY = "deny"
_UNKNOWN = "unknown"


@internal_endpoint("POST", "/broker/user")
async def user(call: Call, form: Mapping[str, str]) -> str:
    """Decide on a login. No `password` field means a client certificate; an empty one is an empty password."""
    text, password = form.get("username", ""), form.get("password")
    if (probed := probe_user(text)) is not None:
        async with call.state.reserved.transaction() as db:
            await notify(db, LOGIN_CHANNEL, login_text(probed, password))
        return DENY
    name = plants.parse_plant_name(text)
    if name is None or partners.is_key(password):
        return await _partner_login(call, text, password)
    async with call.state.reserved.transaction() as db:
        refusal = await plants.login(db, call.state.plant_tokens, name, password)
    if refusal is None and not call.state.plant_logins.admit(name.plant_id):
        refusal = LoginRefusal("too many logins")
    metrics.BROKER_LOGINS.labels("plant", "refused" if refusal else "accepted").inc()
    if refusal:
        log.info("plant refused", plant_id=str(name.plant_id), reason=refusal.reason)
    return _answer("plant", "user", refusal.reason if refusal else None)


@internal_endpoint("POST", "/broker/vhost")
async def vhost(call: Call, form: Mapping[str, str]) -> str:
    """Decide on access to a vhost: by a plant with its own client id, by a partner from an address that its key allows."""
    wanted, client_id = form.get("vhost", ""), form.get("client_id")
    who = _who(form)
    if who is None:
        return _answer("unknown", "vhost", _UNKNOWN)
    async with call.state.reserved.transaction() as db:
        if isinstance(who, UUID):
            ip = form.get("ip", "")
            reason = await partners.enter_vhost(db, who, form.get("username", ""), wanted, ip, client_id)
            log_refusal = {"key_id": str(who), "reason": reason}
        else:
            allowed = await plants.may_enter_vhost(db, who, wanted, client_id)
            allowed = allowed and client_id is not None and call.state.client_ids.admit(who.plant_id, client_id)
            reason = None if allowed else "vhost, state or client id"
            log_refusal = {"plant_id": str(who.plant_id), "reason": reason}
    if reason is not None:
        log.info("refused at the broker", **log_refusal, ip=form.get("ip"))
    return _answer("partner" if isinstance(who, UUID) else "plant", "vhost", reason)


@internal_endpoint("POST", "/broker/resource")
async def resource(call: Call, form: Mapping[str, str]) -> str:
    """Decide on the use of a queue or exchange."""
    wanted = form.get("vhost", ""), form.get("resource", ""), form.get("name", ""), form.get("permission", "")
    who = _who(form)
    if isinstance(who, PlantUserName):
        return _answer("plant", "resource", _unless(plants.may_use_resource(who, *wanted)))
    if who is None:
        return _answer("unknown", "resource", _UNKNOWN)
    rights = await call.state.partner_rights.of(call.state.reserved, who)
    return _answer("partner", "resource", _unless(partners.may_use_resource(rights, *wanted)))


@internal_endpoint("POST", "/broker/topic")
async def topic(call: Call, form: Mapping[str, str]) -> str:
    """Decide on publishing or binding with a routing key."""
    wanted = form.get("vhost", ""), form.get("name", ""), form.get("permission", ""), form.get("routing_key", "")
    who = _who(form)
    if isinstance(who, PlantUserName):
        return _answer("plant", "topic", _unless(plants.may_use_topic(who, *wanted)))
    if who is None:
        return _answer("unknown", "topic", _UNKNOWN)
    rights = await call.state.partner_rights.of(call.state.reserved, who)
    return _answer("partner", "topic", _unless(partners.may_use_topic(rights, *wanted)))


async def _partner_login(call: Call, user_name: str, password: str | None) -> str:
    async with call.state.reserved.transaction() as db:
        found = await partners.log_in(db, user_name, password)
    accepted = isinstance(found, partners.AdmittedKey)
    client = "partner" if accepted or partners.is_key(password) else "unknown"
    metrics.BROKER_LOGINS.labels(client, _outcome(accepted)).inc()
    if isinstance(found, partners.AdmittedKey):
        return f"{_answer(client, 'user', None)} {found.tags}"
    log.info("partner refused", reason=found)
    return _answer(client, "user", found)


def _answer(client: str, question: str, refusal: str | None) -> str:
    """Count a decision and return its response text. The metric's label is the part of the refusal before a colon."""
    answer = ALLOW if refusal is None else DENY
    reason = "" if refusal is None else refusal.partition(":")[0].lower().replace(" ", "_").replace(",", "").replace("'", "")
    metrics.BROKER_QUESTIONS.labels(client, question, answer, reason).inc()
    return answer


def _unless(allowed: bool) -> str | None:
    return None if allowed else "not its own"


def _outcome(accepted: bool) -> str:
    return "accepted" if accepted else "refused"


def _who(form: Mapping[str, str]) -> UUID | PlantUserName | None:
    """Return the id of the partner key from the tags of the login, else the plant of the user name, else None."""
    return partners.key_of_tags(form.get("tags", "")) or plants.parse_plant_name(form.get("username", ""))
