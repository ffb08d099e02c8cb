"""Text messages that are sent at the same time."""

import contextlib
import threading
from collections.abc import Iterator
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
    return Outgoing(new_id(), Channel.SMS, phone, "Low battery", "", {}, 1, utc_now(), None, is_wanted=True, quiet_hours=None)
