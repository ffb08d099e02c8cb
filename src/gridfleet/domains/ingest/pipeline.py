"""The pipeline of plants' messages: verify → decode → store → alert.

`prepare` verifies and decodes a batch of messages and applies the alert rules; it never fails because of one message. `store`
writes the result, including alerts, in one transaction. Both read top to bottom.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Final
from uuid import UUID

from gridfleet.domains.alerts.evaluation import note_newest, raise_alerts
from gridfleet.domains.alerts.rule_cache import RuleCache
from gridfleet.domains.consumers import Consumer
from gridfleet.domains.ingest.cached_plants import CachedPlant
from gridfleet.domains.ingest.models import Batch, Delivery, Refusal
from gridfleet.domains.ingest.parsing import parse_acknowledgement, parse_envelope, parse_snapshots, parse_status
from gridfleet.domains.ingest.plant_cache import PlantCache
from gridfleet.domains.ingest.snapshots import CheckedSnapshot, DeviceFields, add_snapshot, read_snapshot
from gridfleet.domains.partner_events.queue import queue_events
from gridfleet.domains.plants.commands.acknowledgements import apply_acknowledgements
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.domains.plants.presence.records import PlantSeen, record_bad_signatures, record_presence
from gridfleet.domains.plants.refused_messages.records import record_refused_messages, record_unregistered_devices
from gridfleet.domains.telemetry.frames.writer import Partitions, write_batch
from gridfleet.domains.telemetry.power.refresh import PowerRefresher
from gridfleet.domains.vcp.acknowledgements import follow_commands
from gridfleet.domains.vcp.events.subscription_cache import SubscriptionCache
from gridfleet.kernel.cause import caused_by
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database, after_commit, storable
from gridfleet.kernel.isolation import is_poison, note_set_aside
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol import envelope as wire
from gridfleet.protocol import signature
from gridfleet.protocol.envelope import RefusalReason
from gridfleet.protocol.topics import Channel, PlantTopic, parse_routing_key

__all__ = ["Pipeline"]

MAX_STATUS_REASON: Final = 200
MOST_FRAMES: Final = 10_000
"""A batch ends with the message that brings its frames and refusals to this number (docs/decisions/0246)."""


class Pipeline:
    """Verifies, decodes and stores the messages of one ingest process."""

    def __init__(self, database: Database, keyring: Keyring, *, window_seconds: int) -> None:
        self.plant_cache = PlantCache(database, keyring)
        self.rule_cache = RuleCache(database)
        self.subscription_cache = SubscriptionCache(database)
        self.partitions = Partitions(database)
        self.power_refresher = PowerRefresher(database)
        self._window = window_seconds * 1000

    async def prepare(self, deliveries: Sequence[Delivery]) -> Batch:
        """Verify and decode the first messages, as many as one batch holds: see `Batch.message_count`.

        A bad message is refused with its reason, and the others are still processed.

        Raises:
            DatabaseError: A lookup failed.
            Exception: The messages together cause an error.
        """
        batch = Batch(utc_now())
        topics = [parse_routing_key(delivery.routing_key) for delivery in deliveries]
        plants = await self.plant_cache.plants(topic.plant_id for topic in topics if topic)
        batch.subscribed = await self.subscription_cache.subscribed([plant.id for plant in plants.values()])
        for number, (delivery, topic) in enumerate(zip(deliveries, topics, strict=True)):
            if batch.frame_count + batch.refusal_count >= MOST_FRAMES:
                break
            batch.message_count += 1
            plant = plants.get(topic.plant_id) if topic else None
            if plant is None or topic is None:
                batch.count("unknown_plant")
            elif plant.lifecycle_status is Lifecycle.SUSPENDED:
                batch.count("suspended")
            else:
                try:
                    others = (other for other, its in _following(deliveries, topics, number) if its == topic)
                    if await self._process(batch, plant, topic.channel, delivery, others):
                        batch.count("accepted")
                except Refusal as refusal:
                    batch.refuse(plant.id, delivery, refusal)
                except Exception as error:
                    if not is_poison(error):
                        raise
                    with caused_by(delivery.request_id):
                        note_set_aside(Consumer.INGEST, error, plant_id=topic.plant_id, channel=topic.channel)
                    batch.refuse(plant.id, delivery, Refusal(RefusalReason.MALFORMED, "the message could not be read"))
        await self.partitions.ensure_for(batch.frames)
        batch.findings = await self.rule_cache.examine(batch.frames, batch.now)
        return batch

    async def store(self, db: Connection, batch: Batch) -> None:
        """Write a prepared batch. The caller commits the transaction, and acknowledges the messages only after that."""
        await note_newest(db, batch.findings)
        await write_batch(db, batch.frames)
        if batch.bad_signatures:
            await record_bad_signatures(db, batch.bad_signatures, batch.plants_seen)
        if batch.plants_seen or batch.plants_held:
            seen = batch.plants_seen.values(), batch.devices_seen.values()
            for plant_id in await record_presence(db, *seen, hold=batch.plants_held):
                self.plant_cache.invalidate_status(str(plant_id))
        if batch.refused:
            await record_refused_messages(db, batch.refused)
        if batch.unregistered:
            await record_unregistered_devices(db, [one for own in batch.unregistered.values() for one in own.values()])
        if batch.acknowledgements or batch.connected:
            await apply_acknowledgements(db, batch.acknowledgements, batch.connected, utc_now(), follow_commands)
        # Last, because other processes may wait for the locked rules until this transaction ends.
        batch.alerts = await raise_alerts(db, batch.findings, batch.request_id_of)
        await queue_events(db, batch.events)
        for organization_id, plant_ids in batch.reported.items():
            after_commit(db, partial(self.power_refresher.note, organization_id, plant_ids))

    def invalidate(self) -> None:
        """Clear the caches of plants, rules, subscriptions and partitions."""
        self.plant_cache.invalidate_all()
        self.rule_cache.invalidate_all()
        self.subscription_cache.invalidate_all()
        self.partitions.invalidate()

    async def refuse_unstorable(self, delivery: Delivery) -> Batch:
        """Return a batch that only stores the refusal of a message that the database rejected."""
        batch = Batch(utc_now())
        topic = parse_routing_key(delivery.routing_key)
        plant = (await self.plant_cache.plants([topic.plant_id])).get(topic.plant_id) if topic else None
        if plant is None:
            batch.count("unknown_plant")
        else:
            batch.refuse(plant.id, delivery, Refusal(RefusalReason.MALFORMED, "the message could not be stored"))
        return batch

    async def _process(
        self, batch: Batch, plant: CachedPlant, channel: Channel, delivery: Delivery, others: Iterable[Delivery]
    ) -> bool:
        """Process a message. Returns False if it counts as refused: an array of snapshots that were all refused.

        Args:
            others: The following messages of the plant on the channel.
        """
        if len(delivery.body) > wire.MAX_MESSAGE_BYTES:
            raise Refusal(
                RefusalReason.TOO_LARGE, f"the message has {len(delivery.body)} bytes; the limit is {wire.MAX_MESSAGE_BYTES}"
            )
        if channel is Channel.STATUS:
            _process_status(batch, plant, delivery)
            return True
        message = self._verify(batch, plant, delivery)
        seen_at = plant.sent(message.sent_at, batch.now_ms)
        if channel is Channel.TELEMETRY:
            snapshots = _read_snapshots(plant, message, batch.now, partial(batch.refuse, plant.id, delivery))
            if snapshots is None:
                return False
            if lacking := [entry for snapshot in snapshots for entry in snapshot.lacking]:
                # The message's own names first: the limit of names may leave no room for those of others.
                new = [*_by_device(lacking), *_by_device(self._lacking_in(batch, plant, others))]
                await self.plant_cache.make_room(plant, new)
            for snapshot in snapshots:
                add_snapshot(batch, plant, delivery, snapshot, message, seen_at)
            if snapshots:
                newest_us = max(snapshot.time_us for snapshot in snapshots)
                plant.presence.note_message(batch.now_ms, message.sent_at, newest_us / 1000)
            batch.changed.setdefault(plant.organization_id, set()).add(plant.id)
        else:
            batch.acknowledgements.append(parse_acknowledgement(message, plant.id, delivery.request_id))
            batch.plants_held.add(plant.id)
        plant.presence.seen_at = seen_at
        # What is read with an OFFLINE was sent before that was read, so only the next message brings the plant back.
        seen = batch.plants_seen.get(plant.id)
        if seen is not None and seen.status is PlantStatus.OFFLINE:
            plant.invalidate_status()
        elif plant.status is not PlantStatus.ONLINE or plant.presence.is_due(batch.now_ms):
            _record_plant(batch, plant, delivery, PlantStatus.ONLINE, sent_at=datetime.fromtimestamp(seen_at / 1000, UTC))
        return True

    def _verify(self, batch: Batch, plant: CachedPlant, delivery: Delivery) -> wire.Envelope:
        """Return the envelope, if the plant signed it within the time window."""
        if plant.unreadable:
            raise Refusal(RefusalReason.CREDENTIAL_UNREADABLE, "the service cannot read the plant's secret")
        if plant.lifecycle_status is not Lifecycle.ACTIVE or not plant.keys:
            raise Refusal(RefusalReason.NOT_PROVISIONED, f"the plant is {plant.lifecycle_status}")
        message = parse_envelope(delivery.body)
        if message.v != 1:
            raise Refusal(RefusalReason.MALFORMED, "v: must be 1", message.id)
        if not message.sig:
            raise Refusal(RefusalReason.SIGNATURE_MISSING, "sig: is missing", message.id)
        address = delivery.routing_key.replace(".", "/")
        payload = bytes(message.payload)
        for key, valid_until in plant.keys:
            if (valid_until is None or delivery.arrived(message.sent_at, batch.now_ms) < valid_until) and signature.verify(
                key, message.sig, address, message.id, message.sent_at, payload
            ):
                break
        else:
            batch.bad_signatures[plant.id] = batch.bad_signatures.get(plant.id, 0) + 1
            raise Refusal(RefusalReason.SIGNATURE_INVALID, "sig: does not match the message and the plant's secret", message.id)
        arrived = delivery.arrived(message.sent_at, batch.now_ms)
        if not arrived - self._window <= message.sent_at <= batch.now_ms + self._window:
            off = (message.sent_at - int(batch.now_ms)) // 1000
            raise Refusal(
                RefusalReason.TIMESTAMP_OUT_OF_WINDOW,
                f"sentAt: is {abs(off)} s {'ahead of' if off > 0 else 'behind'} the service's clock; check the plant's clock",
                message.id,
            )
        if batch.oldest_sent_at is None or message.sent_at < batch.oldest_sent_at:
            batch.oldest_sent_at = message.sent_at
        return message

    def _lacking_in(self, batch: Batch, plant: CachedPlant, deliveries: Iterable[Delivery]) -> list[DeviceFields]:
        """Return the entries of messages whose fields need positions, about as many as a batch holds.

        They get them together: a plant may send each new name in a message of its own, and all plants wait for a transaction.
        """
        scratch, found = Batch(batch.now), list[DeviceFields]()
        for delivery in deliveries:
            if len(delivery.body) > wire.MAX_MESSAGE_BYTES:
                continue
            try:
                message = self._verify(scratch, plant, delivery)
                for snapshot in _read_snapshots(plant, message, batch.now, lambda _: None) or ():
                    found += snapshot.lacking
            except Exception as error:  # it is refused in its turn
                if not is_poison(error):
                    raise
            if len(found) >= MOST_FRAMES:
                break
        return found


def _following(
    deliveries: Sequence[Delivery], topics: Sequence[PlantTopic | None], number: int
) -> Iterator[tuple[Delivery, PlantTopic | None]]:
    """Yield the deliveries after this one, with their topics."""
    return zip(islice(deliveries, number + 1, None), islice(topics, number + 1, None), strict=True)


def _by_device(entries: Iterable[DeviceFields]) -> Collection[DeviceFields]:
    """Return the entries with one for each device, without fields that have no value."""
    found: dict[UUID, DeviceFields] = {}
    for device, fields in entries:
        names = found.setdefault(device.id, (device, {}))[1]
        names.update((name, value) for name, value in fields.items() if value is not None)
    return found.values()


def _read_snapshots(
    plant: CachedPlant, message: wire.Envelope, now: datetime, refuse: Callable[[Refusal], None]
) -> list[CheckedSnapshot] | None:
    """Check every snapshot of a message. `refuse` takes the refusal of one in an array, which does not affect the others.

    Returns:
        None if each snapshot of an array was refused.
    """
    if bytes(message.payload)[:1] != b"[":
        return [read_snapshot(plant, message.payload, "payload", message.id, now)]
    parsed, snapshots = parse_snapshots(message), list[CheckedSnapshot]()
    for index, raw in enumerate(parsed):
        try:
            snapshots.append(read_snapshot(plant, raw, f"payload.{index}", message.id, now))
        except Refusal as refusal:
            refuse(refusal)
    return None if parsed and not snapshots else snapshots


def _process_status(batch: Batch, plant: CachedPlant, delivery: Delivery) -> None:
    message = parse_status(delivery.body)
    if message.status is wire.PlantStatus.OFFLINE:
        plant.end_session()
    reason = storable(message.reason)[:MAX_STATUS_REASON] if message.reason else None
    # Always written, because another process may have changed the status since the last one.
    _record_plant(batch, plant, delivery, PlantStatus(message.status), reason=reason)
    if message.status is wire.PlantStatus.ONLINE:
        batch.connected.add(plant.id)


def _record_plant(
    batch: Batch,
    plant: CachedPlant,
    delivery: Delivery,
    status: PlantStatus,
    *,
    reason: str | None = None,
    sent_at: datetime | None = None,
) -> None:
    """Write the plant's presence with the batch. If the batch fails, the worker clears the cache that is changed here."""
    plant.status = status
    plant.presence.written_at = batch.now_ms
    interval = plant.presence.interval_seconds
    batch.plants_seen[plant.id] = PlantSeen(plant.id, batch.now, status, interval, reason, sent_at, delivery.request_id)
