"""An ESM on a local port, written only from the description of its HTTP API, with configurable faults.

It shares no code with the sandbox of the service, so that the client is tested against an independent implementation.
"""

import base64
import gzip
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

JsonObject = dict[str, Any]

CLIENT_ID = "fleet & co"
SECRET = "s3cret: with+signs/%"


@dataclass(frozen=True)
class Seen:
    """A received request."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


Fault = Callable[["Conversation"], None]


@dataclass
class StandIn:
    """The ESM's data, the received requests, and the faults of the next requests."""

    url: str = ""
    plants: list[Any] = field(default_factory=list)
    configs: dict[str, JsonObject] = field(default_factory=dict)
    readings: dict[str, list[Any]] = field(default_factory=dict)
    answers: dict[str, JsonObject] = field(default_factory=dict)
    """Fields that replace those of the usual response to a plan, by external id."""
    seen: list[Seen] = field(default_factory=list)
    tokens_given: int = 0
    token_seconds: float = 3600
    is_closed_to_us: bool = False
    """Whether credentials are refused."""
    faults: deque[Fault] = field(default_factory=deque)
    """Faults of the next requests, one each, except requests for tokens."""
    token_faults: deque[Fault] = field(default_factory=deque)
    released: threading.Event = field(default_factory=threading.Event)
    """Ends the wait of hanging requests."""
    _tokens: set[str] = field(default_factory=set)

    def forget_tokens(self) -> None:
        """Invalidate all tokens."""
        self._tokens.clear()

    def calls(self, method: str, path: str) -> list[Seen]:
        """Return the requests with this method and path."""
        return [one for one in self.seen if (one.method, one.path) == (method, path)]

    def token(self, headers: JsonObject, body: bytes) -> tuple[int, JsonObject]:
        """Return the response to a request for a token."""
        pair = base64.b64decode(headers.get("authorization", "").removeprefix("Basic ")).decode()
        client_id, _, secret = pair.partition(":")
        right = (decoded(client_id), decoded(secret)) == (CLIENT_ID, SECRET) and not self.is_closed_to_us
        if not right or parse_qs(body.decode()).get("grant_type") != ["client_credentials"]:
            return 401, {"error": "invalid_client"}
        self.tokens_given += 1
        token = f"token-{self.tokens_given}"
        self._tokens.add(token)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.token_seconds, "scope": "all"}

    def answer(self, seen: Seen) -> tuple[int, JsonObject]:
        """Return the response to any other request."""
        if seen.headers.get("authorization", "").removeprefix("Bearer ") not in self._tokens:
            return 401, {"message": "who are you?"}
        match [unquote(part) for part in seen.path.split("/")[1:]]:
            case ["plants"]:
                return 200, {"plants": self.plants, "unasked": True}
            case ["plants", name, "config"] if name in self.configs:
                return 200, self.configs[name] if seen.method == "GET" else self._plan(name, seen)
            case ["plants", name, "config", "validate"] if name in self.configs:
                return 200, self._plan(name, seen, dry=True)
            case ["plants", name, "meters"] if name in self.configs:
                return 200, {"readings": self.readings.get(name, [])}
        return 404, {"message": "no such thing"}

    def _plan(self, name: str, seen: Seen, *, dry: bool = False) -> JsonObject:
        if not dry:
            self.configs[name] = {
                **self.configs[name],
                "timeConfigs": seen.json["timeConfigs"],
                "version": self.configs[name]["version"] + 1,
            }
        usual = {
            "requestCode": seen.json["requestCode"],
            "resultCode": "OK",
            "message": "taken",
            "isError": False,
            "isTerminal": True,
            "version": self.configs[name]["version"],
        }
        return {**usual, **self.answers.get(name, {})}


def decoded(text: str) -> str:
    """Decode form-encoded text, as RFC 6749 requires for both parts of the credentials."""
    return unquote(text.replace("+", " "))


class Conversation(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    stand_in: StandIn

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, parts.path, parse_qs(parts.query), headers, body)
        self.stand_in.seen.append(seen)
        for_token = parts.path == "/oauth/token"
        faults = self.stand_in.token_faults if for_token else self.stand_in.faults
        if faults:
            faults.popleft()(self)
            return
        status, content = self.stand_in.token(headers, body) if for_token else self.stand_in.answer(seen)
        self.say(status, json.dumps(content).encode())

    def say(self, status: int, body: bytes, kind: str = "application/json; charset=utf-8", **headers: str) -> None:
        """Send a complete response."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def says(status: int, body: bytes, kind: str = "application/json", **headers: str) -> Fault:
    """Return a fault that sends another response."""
    return lambda conversation: conversation.say(status, body, kind, **headers)


def hangs(conversation: Conversation) -> None:
    """Send no response until the test ends."""
    conversation.stand_in.released.wait(30)
    conversation.close_connection = True


def drips(conversation: Conversation) -> None:
    """Send single bytes with pauses, each too short for a read time-out."""
    conversation.send_response(200)
    conversation.send_header("content-type", "application/json")
    conversation.send_header("content-length", "100000")
    conversation.end_headers()
    while not conversation.stand_in.released.wait(0.02):
        try:
            conversation.wfile.write(b" ")
        except OSError:
            break
    conversation.close_connection = True


def hangs_up(conversation: Conversation) -> None:
    """Close the connection without a response."""
    conversation.close_connection = True
    conversation.connection.close()


def breaks_off(conversation: Conversation) -> None:
    """Send less than the announced content length."""
    conversation.send_response(200)
    conversation.send_header("content-type", "application/json")
    conversation.send_header("content-length", "1000")
    conversation.end_headers()
    conversation.wfile.write(b'{"plants": [')
    conversation.close_connection = True


def never_ends(conversation: Conversation) -> None:
    """Send chunks without end."""
    conversation.send_response(200)
    conversation.send_header("content-type", "application/json")
    conversation.send_header("transfer-encoding", "chunked")
    conversation.end_headers()
    chunk = b" " * 65_536
    deadline = time.monotonic() + 20
    try:
        while time.monotonic() < deadline:
            conversation.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
    except OSError:
        conversation.close_connection = True


def crumbles(conversation: Conversation) -> None:
    """Send chunks of one byte without end."""
    conversation.send_response(200)
    conversation.send_header("content-type", "application/json")
    conversation.send_header("transfer-encoding", "chunked")
    conversation.end_headers()
    repeats(conversation, b"1\r\n \r\n")


def announces(conversation: Conversation) -> None:
    """Send interim responses without end."""
    repeats(conversation, b"HTTP/1.1 103 \r\n\r\n")


def repeats(conversation: Conversation, text: bytes) -> None:
    """Send a text without end."""
    deadline = time.monotonic() + 20
    try:
        while time.monotonic() < deadline:
            conversation.wfile.write(text * 5_000)
    except OSError:
        pass
    conversation.close_connection = True


def packed(conversation: Conversation) -> None:
    """Send a small compressed body that unpacks to a large one, although compression was not requested."""
    conversation.say(200, gzip.compress(b" " * 50_000_000), content_encoding="gzip")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnected clients, which some tests cause."""


@contextmanager
def esm_stand_in() -> Iterator[StandIn]:
    """Run the ESM until the end of the block."""
    stand_in = StandIn()
    server = _Server(("127.0.0.1", 0), type("Bound", (Conversation,), {"stand_in": stand_in}))
    stand_in.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        stand_in.released.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
