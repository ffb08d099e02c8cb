"""Delivery of queued notifications, with retries, and the receipts of push messages."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.channels.outcome import Outcome, Sender
from gridfleet.domains.notifications.channels.push import DEVICE_NOT_REGISTERED, ExpoPush
from gridfleet.domains.notifications.models import Channel, Outgoing, TextOwner
from gridfleet.domains.notifications.push_tokens import store as push_tokens
from gridfleet.domains.notifications.quiet_hours import quiet_until
from gridfleet.kernel import metrics
from gridfleet.kernel.cause import at_work
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.notifications import listen
from gridfleet.kernel.due_work import repeat_when_due
from gridfleet.kernel.isolation import is_poison, isolate, reason_of
from gridfleet.kernel.tasks import supervise

__all__ = ["MAX_TEXTS_A_DAY", "MAX_TEXTS_A_DAY_OF_ORGANIZATION", "MAX_TRIES", "SEND_SECONDS", "NotificationWorker"]

log = structlog.get_logger(__name__)

MAX_TRIES: Final = 5
_WAITS: Final = tuple(timedelta(seconds=seconds) for seconds in (5, 30, 120, 600))
_RECEIPT_AFTER: Final = timedelta(minutes=15)
SEND_SECONDS: Final = 30.0
_LEASE: Final = timedelta(seconds=90)
"""When a process is killed while it sends, another process can claim the delivery after this time."""
_RECEIPTS_AT_ONCE: Final = 300
MAX_TEXTS_A_DAY: Final = 100
"""Maximum text messages to a user, and to a number, within 24 hours.

Each costs money, and reaches a number that no user has confirmed and that several users may have set. Several processes that
send to one user at the same time may exceed it by a few.
"""
SHARE_OF_NUMBER_A_DAY: Final = 20
"""Text messages of an organisation to a number within 24 hours that others cannot use up.

Otherwise a user who sets the number of another, or another organisation of the same user, would silence its alerts.
"""
MAX_TEXTS_A_DAY_OF_ORGANIZATION: Final = 1_000
"""Maximum text messages about alerts of an organisation within 24 hours: its administrators invite any number of users."""
MAX_TEST_TEXTS_A_DAY: Final = 500
"""Maximum test messages of all users by text message within 24 hours: the accounts of an organisation increase day by day."""
_TOO_MANY_TEXTS: Final = Outcome("too many text messages within a day", final=True)
_UNWANTED: Final = Outcome(
    "the user is no longer an ORG_ADMIN or OPERATOR of the organisation, no longer has this address, or does not want it",
    final=True,
)


class NotificationWorker:
    """The worker of the queue. Several processes may run it.

    A delivery is tried five times and may arrive more than once.
    """

    def __init__(
        self,
        database: Database,
        senders: Mapping[Channel, Sender],
        expo: ExpoPush,
        *,
        waits: Sequence[timedelta] = _WAITS,
        receipt_after: timedelta = _RECEIPT_AFTER,
    ) -> None:
        """Create a worker.

        Args:
            database: Holds the queue.
            senders: The channels to serve.
            expo: The push service whose receipts are fetched.
            waits: Pauses between the tries.
            receipt_after: Time from sending a push message to the query of its receipt.
        """
        self._database = database
        self._senders = senders
        self._expo = expo
        self._waits = waits
        self._receipt_after = receipt_after
        self._served: dict[Channel, str] = {}
        """The organisation whose turn was the last one in each channel."""

    async def run(self) -> None:
        """Deliver until cancelled."""
        works: list[tuple[str, Callable[[], Awaitable[None]], Callable[[Connection], Awaitable[float | None]]]] = [
            (f"{channel.lower()} notifications", partial(self._work_off, channel), partial(store.next_due, channel=channel))
            for channel in self._senders
        ]
        works.append(("push receipts", self._fetch_receipts, store.next_receipt_due))
        wakes = [asyncio.Event() for _ in works]

        def wake_all() -> None:
            for wake in wakes:
                wake.set()

        async def wait_for_changes() -> None:
            await listen(self._database.url, ["notification_due"], wake_all, lambda channel, payload: wake_all())

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(supervise("notification listener", wait_for_changes))
            for (name, work, next_due), wake in zip(works, wakes, strict=True):
                # Each channel waits and fails for itself, so a gateway that hangs, or a statement that takes too long, delays
                # only its own deliveries.
                run = partial(repeat_when_due, self._database, wake, work, next_due)
                tasks.create_task(supervise(name, run))

    async def _work_off(self, channel: Channel) -> None:
        sender = self._senders[channel]
        while True:
            last = self._served.get(channel, "")
            async with self._database.transaction() as db:
                deliveries = await store.claim(db, channel, sender.most, _LEASE, last)
            if not deliveries:
                return
            self._served[channel] = max((one.organization for one in deliveries), key=lambda one: (one <= last, one))
            due = await self._delay_for_quiet_hours(deliveries)
            refused = {one.id: _UNWANTED for one in due if not one.is_wanted}
            if channel is Channel.SMS:
                refused |= await self._refuse_texts([one for one in due if one.is_wanted])
            outcomes = [(one, refused[one.id]) for one in due if one.id in refused]
            outcomes += await self._send(sender, [one for one in due if one.id not in refused])
            for sent in outcomes:
                await isolate(Consumer.NOTIFICATIONS, [sent], self._record_outcomes, self._fail)

    async def _delay_for_quiet_hours(self, deliveries: Sequence[Outgoing]) -> list[Outgoing]:
        """Postpone deliveries to users who have quiet hours now to the end of these. Returns the others."""
        now = utc_now()
        ends = {one.id: self._quiet_until(one, now) for one in deliveries if one.is_wanted}
        held = {delivery_id: end for delivery_id, end in ends.items() if end is not None}
        if held:
            async with self._database.transaction() as db:
                for one in deliveries:
                    if one.id in held:
                        await store.delay_until(db, one, held[one.id])
        return [one for one in deliveries if one.id not in held]

    async def _refuse_texts(self, deliveries: Sequence[Outgoing]) -> dict[UUID, Outcome]:
        """Return an outcome for each text message beyond the limits of its user, number and organisation."""
        most = {
            TextOwner.USER: MAX_TEXTS_A_DAY,
            TextOwner.NUMBER: MAX_TEXTS_A_DAY,
            TextOwner.SHARE: SHARE_OF_NUMBER_A_DAY,
            TextOwner.ORGANIZATION: MAX_TEXTS_A_DAY_OF_ORGANIZATION,
            TextOwner.TESTS: MAX_TEST_TEXTS_A_DAY,
        }
        keys = {one.id: self._text_keys(one) for one in deliveries}
        sent: Counter[tuple[TextOwner, str]] = Counter()
        async with self._database.transaction() as db:
            for owner, limit in most.items():
                known = {of[owner] for of in keys.values() if owner in of}
                found = await store.count_texts(db, owner, known, timedelta(days=1), limit)
                sent.update({(owner, key): count for key, count in found.items()})
        refused = {}
        for delivery_id, of in keys.items():
            full = {owner for owner, key in of.items() if sent[owner, key] >= most[owner]}
            if TextOwner.SHARE in of and TextOwner.SHARE not in full:
                full -= {TextOwner.USER, TextOwner.NUMBER}
            full.discard(TextOwner.SHARE)
            if full:
                refused[delivery_id] = _TOO_MANY_TEXTS
            else:
                sent.update(of.items())
        return refused

    @staticmethod
    def _text_keys(delivery: Outgoing) -> dict[TextOwner, str]:
        keys = {TextOwner.USER: str(delivery.user_id), TextOwner.NUMBER: delivery.address}
        if not delivery.organization:
            return {**keys, TextOwner.TESTS: ""}
        share = f"{delivery.organization} {delivery.address}"
        return {**keys, TextOwner.SHARE: share, TextOwner.ORGANIZATION: delivery.organization}

    @staticmethod
    def _quiet_until(delivery: Outgoing, now: datetime) -> datetime | None:
        if delivery.quiet_hours is None:
            return None
        try:
            return quiet_until(delivery.quiet_hours, now)
        except Exception as error:  # such as a zone that this release lacks, which must not stop the deliveries to all others
            reason = reason_of(error)
            log.warning("quiet hours not evaluated, notification not delayed", delivery_id=str(delivery.id), error=reason)
            return None

    @staticmethod
    async def _send(sender: Sender, deliveries: Sequence[Outgoing]) -> list[tuple[Outgoing, Outcome]]:
        outcomes: list[tuple[Outgoing, Outcome]] = []

        async def send(some: Sequence[Outgoing]) -> None:
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    found = await sender.send(some)
            except Exception as error:
                if is_poison(error):
                    raise
                found = [Outcome(reason_of(error))] * len(some)
            outcomes.extend(zip(some, found, strict=True))

        async def fail(delivery: Outgoing, error: Exception) -> None:
            outcomes.append((delivery, Outcome(reason_of(error), final=True)))

        await isolate(Consumer.NOTIFICATIONS, deliveries, send, fail)
        return outcomes

    async def _fail(self, sent: tuple[Outgoing, Outcome], error: Exception) -> None:
        await self._record_outcomes([(sent[0], Outcome(reason_of(error), final=True))])

    async def _record_outcomes(self, sent: Sequence[tuple[Outgoing, Outcome]]) -> None:
        for delivery, outcome in sent:
            with at_work("notification", delivery.cause, delivery_id=str(delivery.id)):
                await self._record_outcome(delivery, outcome)

    async def _record_outcome(self, delivery: Outgoing, outcome: Outcome) -> None:
        is_current = True
        async with self._database.transaction() as db:
            if outcome.error is None:
                result = "sent"
                await store.mark_sent(db, delivery.id, outcome.ticket, self._receipt_after if outcome.ticket else None)
            elif outcome.final or delivery.attempts >= MAX_TRIES:
                result = "failed"
                is_current = await store.mark_failed(db, delivery.id, delivery.attempts, outcome.error)
                if outcome.error.startswith(DEVICE_NOT_REGISTERED):
                    await push_tokens.drop_tokens(db, [delivery.address])
            else:
                result = "retried"
                wait = self._waits[min(delivery.attempts, len(self._waits)) - 1]
                is_current = await store.postpone(db, delivery.id, delivery.attempts, outcome.error, wait)
        if not is_current:
            log.info("late outcome of a notification ignored", channel=delivery.channel, attempts=delivery.attempts)
            return
        metrics.NOTIFICATIONS.labels(delivery.channel.lower(), result).inc()
        if outcome.error is None:
            log.info("notification sent", channel=delivery.channel, attempts=delivery.attempts)
        else:
            log.warning(
                "notification failed",
                channel=delivery.channel,
                attempts=delivery.attempts,
                error=outcome.error,
            )

    async def _fetch_receipts(self) -> None:
        async with self._database.transaction() as db:
            waiting = await store.claim_receipts(db, _RECEIPTS_AT_ONCE, self._receipt_after)
        if not waiting:
            return
        try:
            receipts = await self._expo.receipts([ticket for _, ticket, _ in waiting])
        except Exception as error:  # an unexpected response of the service must not stop the deliveries
            log.warning("cannot fetch push receipts", error=f"{type(error).__name__}: {error}")
            return
        for one in waiting:
            await isolate(Consumer.NOTIFICATIONS, [one], partial(self._record_receipts, receipts), self._fail_receipt)

    async def _record_receipts(self, receipts: Mapping[str, Outcome], waiting: Sequence[tuple[UUID, str, str]]) -> None:
        for delivery_id, ticket, token in waiting:
            outcome = receipts.get(ticket)
            if outcome is None:
                continue
            async with self._database.transaction() as db:
                if outcome.error is None:
                    await store.mark_delivered(db, delivery_id)
                    continue
                await store.mark_undelivered(db, delivery_id, outcome.error)
                if outcome.error.startswith(DEVICE_NOT_REGISTERED):
                    await push_tokens.drop_tokens(db, [token])
            metrics.NOTIFICATIONS.labels(Channel.PUSH.lower(), "failed").inc()

    async def _fail_receipt(self, one: tuple[UUID, str, str], error: Exception) -> None:
        async with self._database.transaction() as db:
            await store.mark_undelivered(db, one[0], reason_of(error))
