"""Process a partner's message: verify it, look for a duplicate, parse it, check it against the site, relay and log it.

All of this happens in one transaction, after which the message may be acknowledged. A message that is processed again changes
nothing: the log holds its messageId, or the digest of its bytes if it did not claim the messageId.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from gridfleet.domains.device_templates.catalogue import templates_by_id
from gridfleet.domains.partner_events.queue import queue_events
from gridfleet.domains.partners.models import SendingKey
from gridfleet.domains.plants.commands.clocks import issue_time
from gridfleet.domains.plants.commands.models import CommandStatus, NewPlantCommand, Requester
from gridfleet.domains.plants.commands.relaying import relay, relay_stop
from gridfleet.domains.vcp import store
from gridfleet.domains.vcp.acknowledgements import acknowledgement
from gridfleet.domains.vcp.confirmation import store as confirmation
from gridfleet.domains.vcp.confirmation.dispatch import A_MOMENT
from gridfleet.domains.vcp.log_entries import LoggedMessage, known_payload, new_log_entry
from gridfleet.domains.vcp.models import Instruction, NewLogEntry, PartnerMessage, Rejection, Verified
from gridfleet.domains.vcp.rules import check_site, instruct
from gridfleet.domains.vcp.scheduler import Selection, issue_due_commands
from gridfleet.domains.vcp.sites import store as sites
from gridfleet.domains.vcp.sites.changes import change_site
from gridfleet.domains.vcp.sites.models import Site
from gridfleet.domains.vcp.verification import command_type, prove, read
from gridfleet.kernel.db import Connection, storable
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import (
    DeviceCommand,
    PartnerAck,
    RejectionReason,
    SetpointCommand,
    is_readable,
)
from gridfleet.protocol.partner_routes import CommandKind, parse_inbound

__all__ = ["refuse_unstorable", "take_command"]

_UNPROVED: Final = frozenset(
    {
        RejectionReason.SIGNATURE_MISSING,
        RejectionReason.SIGNATURE_INVALID,
        RejectionReason.TIMESTAMP_OUT_OF_WINDOW,
    }
)

_READ_AGAIN: Final = frozenset({CommandKind.MODE, CommandKind.SCHEDULE_SET, CommandKind.SCHEDULE_CANCEL})
"""Their payload is read again from the log when the plant refuses a later one."""

_MOST_REFUSED: Final = 1_000
_REFUSED_FOR: Final = timedelta(hours=1)
"""After this many refused messages of a key within this time, the log keeps no payload of further ones."""


async def take_command(
    db: Connection, sender: SendingKey, message: PartnerMessage, now: datetime, window_seconds: int
) -> PartnerAck:
    """Process one message in the transaction of `db`.

    Returns:
        The status that the message's newest acknowledgement has.

    Raises:
        psycopg.errors.UniqueViolation: Another process takes the same messageId at this moment. Try again.
    """
    logged = LoggedMessage(message, sender)
    try:
        key = prove(message, sender, logged.content.get("messageId"), now, window_seconds)
        if not logged.keeps_payload and key.kind in _READ_AGAIN:
            raise Rejection(RejectionReason.MALFORMED, "the numbers of the message have too many digits")
    except Rejection as rejection:
        return await _refuse(db, logged, rejection, now, claims_id=False)
    if logged.message_id is not None:
        known = await store.find_claim(db, sender.key.organization_id, logged.message_id)
        if known is not None and known.issued_at is None and known.api_key_id != sender.key.id:
            # Otherwise a key could block the commands of another one with messages that are refused.
            await store.release_claim(db, known.id)
            known = None
        if known is not None and known.digest == logged.digest:
            return await _acknowledge_again(db, sender, known)
        if known is not None:
            reused = Rejection(RejectionReason.DUPLICATE, "messageId: belongs to another message")
            return await _refuse(db, logged, reused, now, claims_id=False)
    site: Site | None = None
    try:
        verified = read(message, key)
        if key.kind in _READ_AGAIN and not is_readable(message.body):
            raise Rejection(RejectionReason.MALFORMED, "a number of the message is out of range")
        site = await _site_of(db, sender, verified, now)
        check_site(verified, site, now)
        if isinstance(verified.command, SetpointCommand):
            site = await _after_due_commands(db, site, now)
        instruction = await _instruction_for(db, verified, site, now)
        return await _accept(db, logged, verified, site, instruction, now)
    except Rejection as rejection:
        if site is not None and site.silent_from < now:
            await sites.save_site(db, replace(site, silent_from=now))
        return await _refuse(db, logged, rejection, now, claims_id=True, plant_id=site.plant_id if site else None)


async def refuse_unstorable(db: Connection, sender: SendingKey, message: PartnerMessage, now: datetime) -> PartnerAck:
    """Refuse a message that cannot be processed or stored. The command log does not keep its payload."""
    logged = LoggedMessage(message, sender)
    logged.keeps_payload = False
    rejection = Rejection(RejectionReason.MALFORMED, "the message cannot be processed")
    return await _refuse(db, logged, rejection, now, claims_id=False)


async def _site_of(db: Connection, sender: SendingKey, verified: Verified, now: datetime) -> Site:
    """Return the site that the command names, locked. Raises Rejection."""
    try:
        plant_id = UUID(verified.command.site_id)
    except ValueError:
        raise Rejection(RejectionReason.SITE_UNKNOWN, "siteId: is not the id of a plant") from None
    organization_id = sender.key.organization_id
    site = await sites.lock_site(db, organization_id, plant_id)
    if site is None:
        await sites.open_site(db, organization_id, plant_id, now)
        site = await sites.lock_site(db, organization_id, plant_id)
    if site is None:
        raise Rejection(RejectionReason.SITE_UNKNOWN, "siteId: the organisation has no such plant")
    if sender.key.plant_ids is not None and plant_id not in sender.key.plant_ids:
        raise Rejection(RejectionReason.SITE_NOT_ALLOWED, "siteId: the API key may not command this plant")
    return site


async def _after_due_commands(db: Connection, site: Site, now: datetime) -> Site:
    """Issue what is due at the site, and return the locked site. A due step or mode would replace a new setpoint at once."""
    is_over = site.override is not None and site.override.expires_at is not None and site.override.expires_at <= now
    if not is_over and site.schedule_ends_at is None and not await confirmation.is_due(db, site.plant_id, now):
        return site
    await issue_due_commands(db, now, Selection(only=[site.plant_id]), fallback_shards=(), ahead=A_MOMENT)
    [changed] = await sites.read_locked(db, [site.plant_id])
    return changed


async def _instruction_for(db: Connection, verified: Verified, site: Site, now: datetime) -> Instruction:
    device = template = None
    if isinstance(verified.command, DeviceCommand) and verified.device is not None:
        device = await store.find_device(db, site.plant_id, verified.device)
        if device is not None and device.template_id is not None:
            template = (await templates_by_id(db, [device.template_id])).get(device.template_id)
    return instruct(verified, site, now, device, template)


async def _accept(
    db: Connection,
    logged: LoggedMessage,
    verified: Verified,
    site: Site,
    instruction: Instruction,
    now: datetime,
) -> PartnerAck:
    received, key = verified.command, logged.sender.key
    device, command_id = instruction.device, new_id()
    stops = verified.type is CommandType.EMERGENCY
    # An emergency stop withdraws what waits for the plant.
    issued_at = now if stops else await issue_time(db, site.plant_id, now)
    command = NewPlantCommand(
        id=command_id,
        plant_id=site.plant_id,
        sub_device_id=device and device.id,
        type=verified.type,
        target=device and device.external_id,
        instruction=instruction.content,
        requester=Requester("API_KEY", str(key.id)),
        issued_at=issued_at,
        expires_at=instruction.expires_at,
        due_at=now,
    )
    issue = relay_stop if stops else relay
    if not await issue(db, command):
        raise Rejection(RejectionReason.PLANT_REJECTED, "too many commands wait for the plant")
    await change_site(db, received, site, command, str(key.id), now)
    ack = PartnerAck.ACCEPTED
    new = new_log_entry(logged, command_id, site.plant_id, verified.type, CommandStatus.PENDING, ack, now, claims_id=True)
    new = replace(new, payload=known_payload(logged, received))
    await store.insert_log_entry(db, replace(new, issued_at=received.issued_at, expires_at=instruction.expires_at))
    await _publish_acknowledgement(db, new)
    return ack


async def _refuse(
    db: Connection,
    logged: LoggedMessage,
    rejection: Rejection,
    now: datetime,
    *,
    claims_id: bool,
    plant_id: UUID | None = None,
) -> PartnerAck:
    claims_id = claims_id and logged.message_id is not None and rejection.reason not in _UNPROVED
    if not claims_id and logged.message.redelivered:
        known = await store.find_refused(db, logged.sender.key.id, logged.raw_digest)
        if known is not None:
            return PartnerAck(known.ack_status)
    kind = command_type(parse_inbound(logged.sender.key.slug, logged.message.routing_key), dict(logged.content))
    plant_id = plant_id or await _named_plant(db, logged)
    new = new_log_entry(logged, new_id(), plant_id, kind, CommandStatus.REJECTED, PartnerAck.REJECTED, now, claims_id=claims_id)
    new = replace(new, rejection_reason=rejection.reason, detail=storable(rejection.detail)[:500])
    if new.payload and await store.has_refused_payloads(db, new.api_key_id, _MOST_REFUSED, _REFUSED_FOR):
        new = replace(new, payload={})
    await store.insert_log_entry(db, new)
    await _publish_acknowledgement(db, new)
    return PartnerAck.REJECTED


async def _named_plant(db: Connection, logged: LoggedMessage) -> UUID | None:
    """Return the plant that the message names, if it belongs to the organisation and the key may see it."""
    try:
        plant_id = UUID(logged.site_id)
    except (TypeError, ValueError):
        return None
    key = logged.sender.key
    if key.plant_ids is not None and plant_id not in key.plant_ids:
        return None
    return plant_id if await store.hold_plant(db, key.organization_id, plant_id) else None


async def _acknowledge_again(db: Connection, sender: SendingKey, known: store.EarlierLogEntry) -> PartnerAck:
    """Queue the newest acknowledgement of the first message again, with the same event id, and return its status."""
    event = acknowledgement(sender.key.organization_id, sender.key.id, None, known)
    await queue_events(db, [event])
    return PartnerAck(known.ack_status)


async def _publish_acknowledgement(db: Connection, entry: NewLogEntry) -> None:
    event = acknowledgement(entry.organization_id, entry.api_key_id, entry.plant_id, entry)
    await queue_events(db, [event])
