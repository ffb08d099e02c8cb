"""Search for secrets in the logs of the service's processes.

During the tests, every secret that passes through an HTTP client is recorded: certain members of requests and responses,
cookies, and the secrets in the home folders of stacks. Before a home folder is removed, its logs are searched for all of them
and for text that has the shape of a secret. Findings fail the session and name the place.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx

SECRET_MEMBERS: Final = {
    "access_token",
    "refresh_token",
    "apiKeySecret",
    "clientKey",
    "clientSecret",
    "client_secret",
    "currentPassword",
    "esmClientSecret",
    "hmacSecret",
    "key",
    "newPassword",
    "password",
    "signingKey",
    "token",
}
"""Members of requests and responses that hold a secret, at any depth."""

SHAPES: Final = {
    "a JWT": re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    "an API key": re.compile(r"\bgf_live_[0-9A-Za-z]{38}\b"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an address with a password": re.compile(
        r"\b(?:postgres(?:ql)?|amqps?|rediss?|smtps?|https?)://[^\s/:@'\"]*:[^\s/@'\"*…]{4,}@"
    ),
}

_SHORTEST: Final = 8
_LONGEST: Final = 4_096
_MOST_ODD: Final = 300
_COOKIES: Final = ("gridfleet_session", "gridfleet_refresh")
_WORD: Final = re.compile(r"[A-Za-z0-9_+/=.-]{8,}")
_LOGS: Final = ("*.log", "*.log.*")


@dataclass
class SecretSearch:
    """Known secrets, and the places where they were found."""

    known: set[str] = field(default_factory=set)
    odd: set[str] = field(default_factory=set)
    """Known secrets that are not a single word. Searching for them is slower."""
    findings: list[str] = field(default_factory=list)

    def note(self, value: object, name: str = "") -> None:
        """Record every secret in a JSON value."""
        if isinstance(value, dict):
            for key, member in value.items():
                self.note(member, key)
        elif isinstance(value, list):
            for member in value:
                self.note(member, name)
        elif isinstance(value, str) and name in SECRET_MEMBERS:
            self.note_text(value)

    def note_text(self, text: str) -> None:
        """Record one secret, line by line for a PEM key. Text that is short or similar to ordinary words is ignored."""
        for line in text.splitlines():
            if not _SHORTEST <= len(line) <= _LONGEST or line.startswith("-----") or len(set(line)) < 4 or line.isalpha():
                continue
            if _WORD.fullmatch(line):
                self.known.add(line)
            elif len(self.odd) < _MOST_ODD:
                self.odd.add(line)

    def note_home(self, home: Path) -> None:
        """Record the secrets of a home folder: local secrets, keys of the keyring, private keys, links in mails."""
        for path in home.glob("**/secrets/*"):
            text = path.read_text()
            if path.name == "admin.json":
                self.note(json.loads(text))
            else:
                for part in text.strip().split(","):
                    self.note_text(part.partition(":")[2] or part)
        for path in [*home.glob("**/ca/*.key"), *home.glob("**/.erlang.cookie")]:
            self.note_text(path.read_text())
        for path in home.glob("**/mail/*.eml"):
            for token in re.findall(r"token=(?:3D)?([0-9a-f]{64})", path.read_text().replace("=\n", "")):
                self.note_text(token)

    def search_home(self, home: Path) -> None:
        """Search every log below a home folder, after recording the secrets of the folder."""
        self.note_home(home)
        logs = {path for pattern in _LOGS for path in home.rglob(pattern) if path.is_file()}
        for path in sorted(logs):
            self.search(path.read_text(errors="replace").splitlines(), f"{home.name}/{path.relative_to(home)}")

    def search(self, lines: Iterable[str], where: str) -> None:
        """Search lines of a log. A finding has place and kind, and the line without the secret."""
        for number, line in enumerate(lines, start=1):
            for kind, secret in self._in(line):
                if not _is_meant(line) and not _is_public(secret):
                    finding = f"{where}:{number}: {kind}: {line.replace(secret, '…')[:300]}"
                    self.findings += [finding] if finding not in self.findings else []

    def _in(self, line: str) -> Iterator[tuple[str, str]]:
        for kind, shape in SHAPES.items():
            for found in shape.finditer(line):
                yield kind, found[0]
        for word in _WORD.findall(line):
            for part in {word, word.strip(".=-"), *re.split(r"[=/.]", word)}:
                if part in self.known:
                    yield "a known secret", part
        for secret in self.odd:
            if secret in line:
                yield "a known secret", secret


def _is_meant(line: str) -> bool:
    """Whether the line is intended: `gridfleet up` shows the SuperAdmin's generated password once, on the terminal."""
    return re.match(r"\W*Password\W", line) is not None


def _is_public(text: str) -> bool:
    """Whether the service's source contains the text: a test's "wrong password" is also the reason of a refusal."""
    return text in _source()


@cache
def _source() -> str:
    package = Path(__file__).parents[3] / "src"
    return "\n".join(path.read_text() for path in sorted(package.rglob("*.py")))


def note_what_clients_see(search: SecretSearch) -> Callable[[], None]:
    """Make every httpx client record the secrets in its requests and responses. Returns a function that undoes it."""

    def note(request: httpx.Request, answer: httpx.Response) -> None:
        for name in _COOKIES:
            if value := answer.cookies.get(name):
                search.note_text(value)
        bodies = [request.content] if "json" in request.headers.get("content-type", "") else []
        if "json" in answer.headers.get("content-type", "") and answer.is_stream_consumed:
            bodies.append(answer.content)
        for body in bodies:
            try:
                search.note(json.loads(body))
            except (ValueError, RecursionError):
                continue

    plain, awaited = httpx.Client.send, httpx.AsyncClient.send

    def send(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        answer = plain(self, request, **options)
        _quietly(note, request, answer)
        return answer

    async def send_async(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        answer = await awaited(self, request, **options)
        _quietly(note, request, answer)
        return answer

    httpx.Client.send = send  # type: ignore[method-assign]
    httpx.AsyncClient.send = send_async  # type: ignore[method-assign]

    def undo() -> None:
        httpx.Client.send = plain  # type: ignore[method-assign]
        httpx.AsyncClient.send = awaited  # type: ignore[method-assign]

    return undo


def _quietly(note: Callable[[httpx.Request, httpx.Response], None], request: httpx.Request, answer: httpx.Response) -> None:
    try:
        note(request, answer)
    except (httpx.RequestNotRead, httpx.ResponseNotRead):  # a stream that the test reads itself
        return


SEARCH: Final = SecretSearch()
"""The search of this session."""
