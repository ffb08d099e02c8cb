"""Acknowledgements of partner commands, and updates of the command log from the steps of plant commands."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import UNSET

from gridfleet.domains.partner_events.models import NewEvent
from gridfleet.domains.partner_events.queue import event_id, queue_events
from gridfleet.domains.plants.commands.models import OPEN, CommandStatus, Transition
from gridfleet.domains.vcp import store
from gridfleet.domains.vcp.confirmation.ends import apply_ends
from gridfleet.domains.vcp.models import NewLogEntry
from gridfleet.kernel.clock import whole_milliseconds
from gridfleet.kernel.db import Connection
from gridfleet.protocol.partner_messages import AckEvent, PartnerAck, RejectionReason, encode_event
from gridfleet.protocol.partner_routes import EventKind

__all__ = ["acknowledgement", "follow_commands", "follow_without_sites"]

_ENDS: Final = {
    CommandStatus.APPLIED: PartnerAck.APPLIED,
    CommandStatus.FAILED: PartnerAck.FAILED,
    CommandStatus.EXPIRED: PartnerAck.EXPIRED,
    CommandStatus.REJECTED: PartnerAck.REJECTED,
}


def acknowledgement(
    organization_id: UUID,
    api_key_id: UUID,
    plant_id: UUID | None,
    entry: NewLogEntry | store.EarlierLogEntry | store.Followed,
) -> NewEvent:
    """Return the event that acknowledges a partner command to the partner of the API key.

    An acknowledgement of the same entry with the same status has the same event id.
    """
    body = AckEvent(
        entry.message_id,
        entry.correlation_id,
        entry.site_id,
        entry.command_type,
        entry.status,
        PartnerAck(entry.ack_status),
        whole_milliseconds(entry.acknowledged_at),
        UNSET if entry.rejection_reason is None else RejectionReason(entry.rejection_reason),
    )
    return NewEvent(
        event_id(entry.id, entry.ack_status),
        organization_id,
        plant_id,
        api_key_id,
        EventKind.COMMAND_ACK,
        encode_event(body),
    )


async def follow_commands(db: Connection, steps: Sequence[Transition], connected: Collection[UUID] = ()) -> None:
    """Apply steps of plant commands to the command log and the sites, and acknowledge commands that ended.

    Runs in the transaction that writes the steps.

    Args:
        steps: Steps of any plant commands, in their order.
        connected: Plants that have just connected.
    """
    last = _newest(steps)
    moved = await _move_log_entries(db, last)
    applied_late = {step.command_id: step.plant_id for step in steps if step.late and step.status is CommandStatus.APPLIED}
    await apply_ends(db, last, {entry.id for entry in moved}, connected, applied_late)
    await _acknowledge_ended(db, moved, last)


async def follow_without_sites(db: Connection, steps: Sequence[Transition], connected: Collection[UUID] = ()) -> None:
    """Apply steps as `follow_commands` does, but not to the sites, for commands whose site cannot be changed.

    Args:
        steps: Steps of any plant commands, in their order.
        connected: Not used, because only sites depend on it.
    """
    last = _newest(steps)
    await _acknowledge_ended(db, await _move_log_entries(db, last), last)


def _newest(steps: Sequence[Transition]) -> dict[UUID, Transition]:
    return {step.command_id: step for step in steps if not step.late}


async def _move_log_entries(db: Connection, last: Mapping[UUID, Transition]) -> list[store.Followed]:
    """Move the log entries of partner commands to the states of their plant commands. Returns those that were open."""
    if not last:
        return []
    return await store.follow(
        db,
        [
            (
                step.command_id,
                step.status.value,
                _ENDS[step.status].value if step.status in _ENDS else None,
                RejectionReason.PLANT_REJECTED.value if step.status is CommandStatus.REJECTED else None,
                step.at,
            )
            for step in last.values()
        ],
    )


async def _acknowledge_ended(db: Connection, moved: Sequence[store.Followed], last: Mapping[UUID, Transition]) -> None:
    await queue_events(
        db,
        [
            acknowledgement(entry.organization_id, entry.api_key_id, entry.plant_id, entry)._replace(
                request_id=last[entry.id].request_id
            )
            for entry in moved
            if entry.status not in OPEN
        ],
    )
