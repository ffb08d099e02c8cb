"""The plant's connection to the service: store, sign and send snapshots, and execute signed commands."""

import asyncio
import contextlib
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiomqtt
import msgspec

from gridfleet.protocol.envelope import PlantStatus, Snapshot, StatusMessage, sign_message
from gridfleet.protocol.topics import Channel
from gridfleet.sdk.plant.commands import open_command
from gridfleet.sdk.plant.connection import LoginRefused, open_connection
from gridfleet.sdk.plant.errors import (
    CommandRefused,
    ConnectFailed,
    NotAuthorized,
    PlantClientError,
    QueueError,
    QueueOverflow,
    TokenRefused,
)
from gridfleet.sdk.plant.execution import CommandExecutor, CommandHandler
from gridfleet.sdk.plant.messages import Batch, MessageIds, current_time, encode_snapshot, pack
from gridfleet.sdk.plant.options import DEFAULT_OPTIONS, Counters, Options
from gridfleet.sdk.plant.package import AuthMethod, Package
from gridfleet.sdk.plant.publishing import BATCH_BYTES, QOS, Publisher, Window
from gridfleet.sdk.plant.store import QueueFile
from gridfleet.sdk.plant.token import SignedTokens, TokenSource

__all__ = ["PlantClient"]

TokenProvider = Callable[[], Awaitable[str]]

_log: Final = logging.getLogger("gridfleet.sdk.plant")


class PlantClient:
    """A plant client. Use it as an asynchronous context manager; it connects and reconnects automatically.

    Each attempt to connect uses the next address of the package, after the last one the first again.

    Args:
        package: The plant's provisioning package.
        queue_path: File that keeps this plant's unconfirmed messages.
        on_command: Executes a command. Return means APPLIED, `CommandRejected` means REJECTED, any other error means FAILED.
        token_provider: Returns the MQTT token of a TOKEN plant. Default: `SignedTokens`.
        on_problem: Called for every problem, which is a warning in the log without it. With it, refused logins are retried
            without end. Without it, the client may stop with `NotAuthorized` (see `Options`), which `send`, `drain`,
            `wait_connected` and the end of the context raise.
        on_delivered: Called with the numbers (from `send`) that the broker has confirmed.
        firmware: Version to report in status messages.
        options: Limits and time-outs.
        clock: Returns epoch seconds.
    """

    def __init__(
        self,
        package: Package,
        *,
        queue_path: str | Path,
        on_command: CommandHandler | None = None,
        token_provider: TokenProvider | None = None,
        on_problem: Callable[[PlantClientError], None] | None = None,
        on_delivered: Callable[[Sequence[int]], None] | None = None,
        firmware: str | None = None,
        options: Options = DEFAULT_OPTIONS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if package.auth_method is AuthMethod.TOKEN and token_provider is None:
            token_provider = SignedTokens(package, clock=clock)
        self.package = package
        self.counters = Counters()
        self._queue_path = Path(queue_path)
        self._on_command = on_command
        self._token = TokenSource(token_provider, clock) if token_provider else None
        self._on_problem = on_problem
        self._on_delivered = on_delivered
        self._firmware = firmware
        self._options = options
        self._clock = clock
        self._key = package.signing_key
        self._tls = package.tls_context()
        self._addresses = itertools.cycle(package.addresses)
        self._ids = MessageIds()
        self._topics = package.mqtt.topics
        self._publisher: Publisher | None = None
        self._connected = asyncio.Event()
        self._is_ending = False
        self._stored = {Channel.ACK: asyncio.Event(), Channel.TELEMETRY: asyncio.Event()}
        self._emptied = asyncio.Event()
        self._confirming: set[asyncio.Task[None]] = set()
        self._received: asyncio.Queue[aiomqtt.Message] = asyncio.Queue()
        self._refusals = 0

    async def __aenter__(self) -> Self:
        self._queue = QueueFile(
            self._queue_path,
            self.package.plant_id,
            max_bytes=self._options.max_queue_bytes,
            max_age_seconds=self._options.max_queue_age_seconds,
            fsync=self._options.fsync,
        )
        self._executor = CommandExecutor(
            self.package.plant_id,
            self._queue,
            self._on_command,
            self._stored[Channel.ACK],
            self.counters,
            self._clock,
            self._report,
        )
        try:
            await self._executor.fail_interrupted()
        except BaseException:
            await self._queue.close()  # otherwise the file would be locked for the next attempt
            raise
        self._tasks = (
            asyncio.create_task(self._stay_connected(), name=f"client of plant {self.package.plant_id}"),
            asyncio.create_task(self._receive(), name=f"received {self.package.plant_id}"),
            asyncio.create_task(self._executor.run(), name=f"commands {self.package.plant_id}"),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.stop_timeout_seconds):
                await self._received.join()
                await self._executor.join()
        if self.connected:
            with contextlib.suppress(PlantClientError, TimeoutError):
                await self.drain(timeout_seconds=self._options.stop_timeout_seconds)
        failure = self._failure()
        self._is_ending = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*self._confirming, return_exceptions=True)
        await self._queue.close()
        if failure is not None and error is None:
            raise failure

    @property
    def connected(self) -> bool:
        """Whether the client is logged in at the broker."""
        return self._connected.is_set()

    @property
    def waiting(self) -> int:
        """Number of messages in the queue: unconfirmed snapshots and acknowledgements."""
        return self._queue.waiting

    @property
    def dropped(self) -> int:
        """Number of messages dropped because of the queue's limits, since the file was created."""
        return self._queue.dropped

    async def send(self, snapshot: Snapshot) -> int:
        """Store a snapshot to be sent as soon as possible. Returns its number in the queue. See `send_all` for errors."""
        return (await self.send_all([snapshot]))[0]

    async def send_all(self, snapshots: Sequence[Snapshot]) -> list[int]:
        """Store snapshots, in order, in one transaction. They are on disk when this returns.

        Returns:
            Their numbers in the queue.

        Raises:
            SnapshotRefused: The service would refuse one of them; nothing is stored.
            QueueError: The queue file fails.
            NotAuthorized: The client has stopped after refused logins. The snapshots are stored.
        """
        payloads = [encode_snapshot(snapshot, self.package.protocol.max_message_bytes) for snapshot in snapshots]
        numbers, dropped = await self._queue.put(Channel.TELEMETRY, payloads)
        if dropped:
            self._report(QueueOverflow(dropped))
        self._stored[Channel.TELEMETRY].set()
        self._raise_failure()
        return numbers

    async def publish_signed(self, channel: Channel, message: bytes) -> None:
        """Publish an envelope that another program has signed; wait until the broker has confirmed it.

        The message bypasses the queue.

        Raises:
            ConnectFailed: There is no connection, or it breaks meanwhile.
        """
        if self._publisher is None:
            raise ConnectFailed("not connected")
        try:
            await self._publisher.publish(getattr(self._topics, channel.value), message)
        except aiomqtt.MqttError as error:
            raise ConnectFailed(str(error)) from error

    async def wait_connected(self, timeout_seconds: float | None = None) -> None:
        """Wait until connected.

        Raises:
            TimeoutError: Not connected within `timeout_seconds`.
            NotAuthorized: The client has stopped after refused logins.
        """
        async with asyncio.timeout(timeout_seconds):
            await self._unless_failed(self._connected)

    async def drain(self, below: int = 1, timeout_seconds: float | None = None) -> None:
        """Wait until fewer than `below` messages are in the queue.

        Raises:
            TimeoutError: Not reached within `timeout_seconds`.
            NotAuthorized: The client has stopped after refused logins.
        """
        async with asyncio.timeout(timeout_seconds):
            while self.waiting >= below:
                self._emptied.clear()
                await self._unless_failed(self._emptied)
            # Messages are removed from the queue before they are counted and reported.
            if self._confirming:
                await asyncio.wait(self._confirming)

    async def _stay_connected(self) -> None:
        attempt = 0
        while True:
            messages = self.counters.messages
            try:
                await self._session()
            except (ConnectFailed, QueueError) as error:
                self._report(error)
                if isinstance(error, NotAuthorized) and self._gives_up(error):
                    raise
            # Only a session that delivered a message resets the backoff. A session that is closed at once must not cause a busy
            # loop.
            attempt = 0 if self.counters.messages > messages else attempt + 1
            longest = min(self._options.reconnect_min_seconds * 2.0 ** min(attempt, 30), self._options.reconnect_max_seconds)
            await asyncio.sleep(random.uniform(longest / 2, longest))

    def _gives_up(self, error: NotAuthorized) -> bool:
        most = self._options.refusals_before_giving_up
        return self._on_problem is None and most is not None and error.refusals >= most

    async def _session(self) -> None:
        """Run one connection, to the next address, from login to loss. Raises `ConnectFailed` or `QueueError` at its end."""
        try:
            password = await self._token.get() if self._token else self.package.security.password
            async with open_connection(
                self.package, next(self._addresses), self._tls, password, 2 * self._options.window + 2, self._received
            ) as client:
                self._refusals = 0
                self.counters.connects += 1
                await self._serve(client)
        except (LoginRefused, TokenRefused) as error:
            self._refusals += 1
            if self._token:
                self._token.invalidate()
            raise NotAuthorized(str(error), self._refusals) from error

    async def _serve(self, client: aiomqtt.Client) -> None:
        # Subscribe first: after ONLINE the service sends the commands that are waiting.
        await client.subscribe(self._topics.commands, qos=QOS)
        await asyncio.gather(*self._confirming)
        publisher = Publisher(client, self._options.confirm_timeout_seconds)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_wait_until_lost(client))
                # Before ONLINE, for which the service sends again what the plant has failed to do until then.
                await self._send_stored(publisher, Channel.ACK, waits=False)
                await self._publish_status(publisher, PlantStatus.ONLINE)
                # Before Python 3.12, `asyncio.wait_for` can swallow the cancellation (python/cpython#86296), and the end of the
                # client would wait for this session without end.
                if self._is_ending:
                    raise asyncio.CancelledError
                self._publisher = publisher
                self._connected.set()
                tasks.create_task(self._send_stored(publisher, Channel.ACK))
                tasks.create_task(self._send_stored(publisher, Channel.TELEMETRY))
        except asyncio.CancelledError:
            with contextlib.suppress(aiomqtt.MqttError, TimeoutError):
                async with asyncio.timeout(self._options.stop_timeout_seconds):
                    await self._publish_status(publisher, PlantStatus.OFFLINE, "stopped")
            raise
        finally:
            self._publisher = None
            self._connected.clear()

    async def _publish_status(self, publisher: Publisher, status: PlantStatus, reason: str | None = None) -> None:
        message = StatusMessage(status, time=current_time(self._clock), reason=reason, firmware=self._firmware)
        await publisher.publish(self._topics.status, msgspec.json.encode(message), retain=True)

    async def _send_stored(self, publisher: Publisher, channel: Channel, *, waits: bool = True) -> None:
        """Publish stored messages, oldest first, including those stored while this runs.

        Args:
            publisher: The connection.
            channel: Whose messages are sent.
            waits: When no message is stored, wait for the next one instead of returning.
        """
        window = Window(self._options.window)
        count = self._options.batch_snapshots if channel is Channel.TELEMETRY else 1
        size = min(BATCH_BYTES, self.package.protocol.max_message_bytes)
        after = 0
        async with asyncio.TaskGroup() as publishes:
            while True:
                self._stored[channel].clear()
                stored = await self._queue.read(channel, after, self._options.batch_snapshots)
                if not stored:
                    if not waits:
                        break
                    await self._stored[channel].wait()
                for batch in pack(stored, max_snapshots=count, max_message_bytes=size):
                    await window.enter(len(batch.payload))
                    publishes.create_task(self._publish(publisher, channel, batch, window))
                    after = batch.numbers[-1]

    async def _publish(self, publisher: Publisher, channel: Channel, batch: Batch, window: Window) -> None:
        topic: str = getattr(self._topics, channel.value)
        message = sign_message(self._key, topic, self._ids.next(), int(self._clock() * 1000), batch.payload)
        seconds = await publisher.publish(topic, message)
        # Shielded: a confirmed message is removed and reported even if the connection breaks now.
        confirming = asyncio.create_task(self._confirm(channel, batch))
        self._confirming.add(confirming)
        confirming.add_done_callback(self._confirming.discard)
        await asyncio.shield(confirming)
        window.leave(len(batch.payload), seconds)

    async def _confirm(self, channel: Channel, batch: Batch) -> None:
        await self._queue.remove(batch.numbers)
        self.counters.messages += 1
        if channel is Channel.TELEMETRY:
            self.counters.snapshots += len(batch.numbers)
            if self._on_delivered is not None:
                self._on_delivered(batch.numbers)
        self._emptied.set()

    async def _receive(self) -> None:
        """Accept commands in the order in which they arrived, also after their connection was lost."""
        while True:
            message = await self._received.get()
            assert isinstance(message.payload, bytes)
            await self._accept(message.payload)
            self._received.task_done()

    async def _accept(self, message: bytes) -> None:
        try:
            command = open_command(
                message, key=self._key, address=self._topics.commands, now_milliseconds=int(self._clock() * 1000)
            )
        except CommandRefused as error:
            self.counters.commands_refused += 1
            self._report(error)
            return
        if not await self._executor.accept(command):
            self.counters.commands_repeated += 1

    def _report(self, error: PlantClientError) -> None:
        if self._on_problem is None:
            _log.warning("plant %s: %s", self.package.plant_id, error)
        else:
            self._on_problem(error)

    def _failure(self) -> BaseException | None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                return error
        return None

    def _raise_failure(self) -> None:
        if (failure := self._failure()) is not None:
            raise failure

    async def _unless_failed(self, event: asyncio.Event) -> None:
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        self._raise_failure()


async def _wait_until_lost(client: aiomqtt.Client) -> None:
    async for _ in client.messages:
        raise RuntimeError("aiomqtt queued a message that the client should have taken")
