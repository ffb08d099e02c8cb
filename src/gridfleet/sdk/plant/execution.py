"""Execution of a plant's commands, one after the other, independent of the connection."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

import msgspec

from gridfleet.protocol.envelope import AckStatus, Command, CommandAck, CommandReason, CommandType
from gridfleet.sdk.plant.errors import CommandRejected, PlantClientError, QueueError
from gridfleet.sdk.plant.messages import current_time
from gridfleet.sdk.plant.options import Counters
from gridfleet.sdk.plant.store import QueueFile

__all__ = ["CommandExecutor", "CommandHandler"]

CommandHandler = Callable[[Command], Awaitable[None]]

_log: Final = logging.getLogger("gridfleet.sdk.plant")
_RETRY_SECONDS: Final = 1.0
_CODE_CHARACTERS: Final = 64
_MESSAGE_CHARACTERS: Final = 500

T = TypeVar("T")


class _Waiting(NamedTuple):
    """An accepted command, in the order of execution: emergency stops first, then by the number of its arrival."""

    is_no_stop: bool
    number: int
    command: Command


class CommandExecutor:
    """Executes commands and stores their acknowledgements.

    An emergency stop is executed as soon as the handler has returned from the command that it is executing. Commands that
    waited before it are rejected.

    Args:
        plant_id: For the log.
        queue: Stores acknowledgements, and the ids of the commands that were received.
        on_command: Executes a command; None rejects all.
        stored: Set whenever an acknowledgement was stored.
        counters: Counts executed commands.
        clock: Returns epoch seconds.
        report: Called for the first of several errors of the queue's file in a row. What failed is retried until it succeeds.
    """

    def __init__(
        self,
        plant_id: str,
        queue: QueueFile,
        on_command: CommandHandler | None,
        stored: asyncio.Event,
        counters: Counters,
        clock: Callable[[], float],
        report: Callable[[PlantClientError], None],
    ) -> None:
        self._plant_id = plant_id
        self._queue = queue
        self._on_command = on_command
        self._stored = stored
        self._counters = counters
        self._clock = clock
        self._report = report
        self._commands: asyncio.PriorityQueue[_Waiting] = asyncio.PriorityQueue()
        self._numbers = itertools.count(1)
        self._last_stop = 0
        """The number of the newest emergency stop."""

    async def fail_interrupted(self) -> None:
        """Store FAILED for the commands that a former process began and did not finish."""
        for command_id in await self._queue.unfinished_commands():
            reason = CommandReason("INTERRUPTED", "the plant's software ended while it executed this command")
            await self._finish(command_id, AckStatus.FAILED, reason)

    async def accept(self, command: Command) -> bool:
        """Store the acknowledgement RECEIVED and queue the command. Returns False, without an effect, for a duplicate.

        If this is cancelled while the command is being stored, it ends after the command is stored and queued.
        """
        # The broker has the confirmation of the command and does not send it again.
        return await self._retry(lambda: self._accept_whole(command))

    async def _accept_whole(self, command: Command) -> bool:
        accepting = asyncio.create_task(self._accept(command))
        try:
            return await asyncio.shield(accepting)
        except asyncio.CancelledError:
            # A command that is stored but not queued would not be executed: its copies count as duplicates.
            await asyncio.wait({accepting})
            raise

    async def _accept(self, command: Command) -> bool:
        if not await self._queue.begin_command(command.command_id, self._ack(command.command_id, AckStatus.RECEIVED)):
            return False
        self._stored.set()
        waiting = _Waiting(command.type != CommandType.EMERGENCY, next(self._numbers), command)
        if not waiting.is_no_stop:
            self._last_stop = waiting.number
        self._commands.put_nowait(waiting)
        return True

    async def run(self) -> None:
        """Execute accepted commands until cancelled."""
        while True:
            waiting = await self._commands.get()
            status, reason = await self._execute(waiting)
            await self._retry(partial(self._finish, waiting.command.command_id, status, reason))
            self._counters.commands += 1
            self._commands.task_done()

    async def _retry(self, work: Callable[[], Awaitable[T]]) -> T:
        is_reported = False
        while True:
            try:
                return await work()
            except QueueError as error:
                if not is_reported:
                    self._report(error)
                    is_reported = True
            await asyncio.sleep(_RETRY_SECONDS)

    async def join(self) -> None:
        """Wait until every accepted command has its last acknowledgement stored."""
        await self._commands.join()

    async def _execute(self, waiting: _Waiting) -> tuple[AckStatus, CommandReason | None]:
        command = waiting.command
        if waiting.is_no_stop and waiting.number < self._last_stop:
            return AckStatus.REJECTED, CommandReason("EMERGENCY_STOPPED", "an emergency stop came before its execution")
        if command.expires_at.timestamp() <= self._clock():
            return AckStatus.REJECTED, CommandReason("EXPIRED", "the command has expired")
        if self._on_command is None:
            return AckStatus.REJECTED, CommandReason("UNSUPPORTED", "this plant executes no commands")
        try:
            try:
                await self._on_command(command)
            except CommandRejected as error:
                return AckStatus.REJECTED, _rejection(error)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            _log.exception("plant %s: command %s failed", self._plant_id, command.command_id)
            return AckStatus.FAILED, CommandReason("HANDLER_ERROR", type(error).__name__)
        return AckStatus.APPLIED, None

    async def _finish(self, command_id: str, status: AckStatus, reason: CommandReason | None) -> None:
        await self._queue.finish_command(command_id, self._ack(command_id, status, reason))
        self._stored.set()

    def _ack(self, command_id: str, status: AckStatus, reason: CommandReason | None = None) -> bytes:
        return msgspec.json.encode(CommandAck(command_id, status, current_time(self._clock), reason))


def _rejection(error: CommandRejected) -> CommandReason:
    """Return the reason as the service keeps it. Handlers raise errors with other objects than text, and of any length."""
    code, message = (str(part).encode(errors="replace").decode() for part in (error.code, error.message))
    return CommandReason(code[:_CODE_CHARACTERS], message[:_MESSAGE_CHARACTERS])


def _is_being_cancelled() -> bool:
    """Return whether the current task is being cancelled. A CancelledError can also come from an awaited task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
