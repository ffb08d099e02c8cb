"""Text messages that are sent at the same time, and gateways that hang."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gridfleet.domains.notifications.channels.sms import SmsChannel
from gridfleet.domains.notifications.models import Channel, Outgoing
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.ids import new_id


async def test_a_failure_says_nothing_about_messages_of_others() -> None:
    statuses = [404, 500, 503]
    with refusing_gateway(len(statuses)) as url:
        outcomes = await SmsChannel(url).send([outgoing(str(status)) for status in statuses])
    errors = [str(outcome.error) for outcome in outcomes]
    assert [[str(status) in error for status in statuses] for error in errors] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


async def test_a_gateway_that_hangs_delays_no_other_work_of_the_process() -> None:
    with ThreadPoolExecutor(2) as shared, hanging_gateway() as (url, asked):
        asyncio.get_running_loop().set_default_executor(shared)
        channel = SmsChannel(url)
        sending = asyncio.create_task(channel.send([outgoing(str(number)) for number in range(channel.most)]))
        for _ in range(2):
            while not asked.acquire(blocking=False):
                await asyncio.sleep(0.01)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 10) == 7
        assert not sending.done()
        sending.cancel()


@contextlib.contextmanager
def hanging_gateway() -> Iterator[tuple[str, threading.Semaphore]]:
    """A gateway that accepts connections and never answers. The semaphore counts them."""
    asked, over = threading.Semaphore(0), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.release()
            over.wait(60)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"json://127.0.0.1:{server.server_address[1]}/{{phone}}?rto=60", asked
    finally:
        over.set()
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def refusing_gateway(messages: int) -> Iterator[str]:
    """A gateway that waits for so many messages, and answers each with the status that stands for its recipient."""
    together = threading.Barrier(messages, timeout=30)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            together.wait()
            self.send_response(int(self.path.strip("/")))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"json://127.0.0.1:{server.server_address[1]}/{{phone}}?rto=30"
    finally:
        server.shutdown()
        server.server_close()


def outgoing(phone: str) -> Outgoing:
    """A message to a phone."""
    return Outgoing(
        new_id(),
        Channel.SMS,
        phone,
        "Low battery",
        "",
        {},
        1,
        utc_now(),
        None,
        is_wanted=True,
        quiet_hours=None,
        user_id=new_id(),
    )
