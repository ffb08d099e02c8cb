"""A push service in Expo's format on a local port, with configurable responses."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JsonObject = dict[str, Any]

MIB = 1024 * 1024


@dataclass
class ExpoServer:
    """The received requests, and the tickets and receipts to return by token."""

    url: str = ""
    messages: list[JsonObject] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    """Number of messages of each request."""
    headers: list[dict[str, str]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    """Error of the ticket, by token."""
    tickets: dict[str, Any] = field(default_factory=dict)
    """The whole ticket, by token."""
    receipt_errors: dict[str, str] = field(default_factory=dict)
    receipts_asked: int = 0
    receipts_body: Any = None
    """The response to every request for receipts, or None for the usual one."""
    failing_requests: int = 0
    """Number of next requests that get status 503."""
    bodies: list[Any] = field(default_factory=list)
    """The responses to the next requests, with status 200."""
    endless: bytes | None = None
    """Written after the head of every response, chunked, until the client closes the connection or has had 64 MiB."""
    together_refused: bool = False
    """Whether requests with more than one message are refused, as for tokens of two projects."""
    lonely_token: str | None = None
    """A token that makes each request with other messages fail."""
    seconds: float = 0
    """How long the service takes for a request."""
    hanging_token: str | None = None
    """A token whose message is answered after five seconds, if it is the only one of its request."""
    projects: dict[str, str] = field(default_factory=dict)
    """The project of each token, if it matters. Requests with tokens of several are refused."""
    names_projects: bool = True
    """Whether such a refusal says which token belongs to which project, as Expo's does."""
    read_to_the_end: bool = False
    """Whether a client has read all of such a response."""
    _tickets: dict[str, str] = field(default_factory=dict)

    def answer(self, path: str, content: Any) -> tuple[int, Any]:
        """Return status and body of the response."""
        if path == "/--/api/v2/push/getReceipts":
            self.receipts_asked += 1
            if self.receipts_body is not None:
                return 200, self.receipts_body
            return 200, {"data": {ticket: self._receipt(ticket) for ticket in content["ids"]}}
        if path != "/--/api/v2/push/send":
            return 404, {"errors": [{"code": "NOT_FOUND", "message": path}]}
        self.requests.append(len(content))
        if self.failing_requests:
            self.failing_requests -= 1
            return 503, {}
        if self.bodies:
            return 200, self.bodies.pop(0)
        if len({self.projects.get(message["to"]) for message in content}) > 1:
            return 400, {"errors": [self._several_projects([message["to"] for message in content])]}
        lonely = self.lonely_token in [message["to"] for message in content]
        if (self.together_refused or lonely) and len(content) > 1:
            return 400, {"errors": [{"code": "PUSH_TOO_MANY_EXPERIENCE_IDS", "message": "tokens of several projects"}]}
        self.messages += content
        return 200, {"data": [self._ticket(message["to"]) for message in content]}

    def _several_projects(self, tokens: list[str]) -> JsonObject:
        error: JsonObject = {"code": "PUSH_TOO_MANY_EXPERIENCE_IDS", "message": "tokens of several projects"}
        if self.names_projects:
            error["details"] = {}
            for token in tokens:
                error["details"].setdefault(self.projects[token], []).append(token)
        return error

    def _ticket(self, token: str) -> Any:
        if token in self.tickets:
            return self.tickets[token]
        if error := self.errors.get(token):
            return {"status": "error", "message": f"{token} failed", "details": {"error": error}}
        ticket = f"ticket-{len(self._tickets)}"
        self._tickets[ticket] = token
        return {"status": "ok", "id": ticket}

    def _receipt(self, ticket: str) -> JsonObject:
        error = self.receipt_errors.get(self._tickets[ticket])
        return {"status": "error", "message": "gone", "details": {"error": error}} if error else {"status": "ok"}


@contextmanager
def expo_server() -> Iterator[ExpoServer]:
    """Run the service until the end of the block."""
    state = ExpoServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.headers.append({name.lower(): value for name, value in self.headers.items()})
            if state.endless is not None:
                self._answer_without_end(state.endless)
                return
            status, body = state.answer(self.path, content)
            is_hanging = isinstance(content, list) and [message["to"] for message in content] == [state.hanging_token]
            time.sleep(5 if is_hanging else state.seconds)
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def _answer_without_end(self, piece: bytes) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
            chunks = b"%x\r\n%s\r\n" % (len(piece), piece) * max(1, 64 * 1024 // len(piece))
            with contextlib.suppress(ConnectionError):
                for _ in range(64 * MIB // len(chunks)):
                    self.wfile.write(chunks)
                state.read_to_the_end = True

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
