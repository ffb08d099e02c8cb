"""Compression of responses: zstd or gzip, whichever the client prefers.

A response that holds a secret is never compressed: the size of the compressed text could reveal it to a client that chooses
other parts of the text (the attack BREACH). Event streams are not compressed either, because each event is sent at once.
"""

import asyncio
import zlib
from collections.abc import Hashable
from functools import lru_cache, partial
from typing import Any, Final

from gridfleet.api.http.call import Call
from gridfleet.api.http.negotiation import preferences
from gridfleet.api.http.responses import ASGIApp, Header, Response, StreamedResponse
from gridfleet.kernel.turns import FairThread

try:
    from compression import zstd
except ImportError:  # before Python 3.14
    try:
        from backports import zstd
    except ImportError:  # a distribution may leave the package out: gzip remains
        zstd = None

__all__ = ["ENCODINGS", "LEAST_BYTES", "VARY", "accepted_encoding", "compressed"]

ENCODINGS: Final = ("gzip",) if zstd is None else ("zstd", "gzip")
"""Content encodings, the preferred one first."""

LEAST_BYTES: Final = 1_024
"""Smaller responses are sent as they are: they fit into one packet anyway."""

_TYPES: Final = (
    *(b"application/json", b"application/x-ndjson", b"application/geo+json", b"application/manifest+json"),
    *(b"text/", b"image/svg+xml"),
)
_EVENTS: Final = b"text/event-stream"
VARY: Final[Header] = (b"vary", b"accept-encoding")
_LEVEL: Final = 1
"""For both encodings. Higher levels take up to six times as long, for texts that are at most a tenth shorter."""
_LEVEL_OF_FILES: Final = 9
_WINDOW_BITS: Final = 17
"""Of zstd, for streams: 128 kB. A slow client keeps the compressor for hours."""
_MOST_IN_LOOP: Final = 32_768
"""Bytes above which text is compressed in a thread. gzip takes 10 µs for a kilobyte."""
_THREADS: Final = FairThread("compression", threads=2)
"""The compression of a cached response of 8 MiB takes 50 ms, and nothing else limits how often its reader asks for it."""


def accepted_encoding(header: str) -> str | None:
    """Return the encoding that an `Accept-Encoding` header prefers, the first of `ENCODINGS` among equals; None for none."""
    qualities = dict(preferences(header))
    others = qualities.get("*", 0.0)
    best = max(ENCODINGS, key=lambda encoding: qualities.get(encoding, others))
    quality = qualities.get(best, others)
    return best if quality > 0 and quality >= qualities.get("identity", 0.0) else None


async def compressed(call: Call, response: ASGIApp) -> ASGIApp:
    """Return a response as the caller's `Accept-Encoding` prefers it."""
    if not isinstance(response, Response | StreamedResponse) or call.has_secret or not _is_text(response):
        return response
    body = response.body if isinstance(response, Response) else response.first
    if len(body) < LEAST_BYTES:
        return response
    encoding = accepted_encoding(call.headers.get("accept-encoding", ""))
    if VARY not in response.headers:
        response.headers = [*response.headers, VARY]
    if encoding is None:
        return response
    response.headers = [*response.headers, (b"content-encoding", encoding.encode())]
    if isinstance(response, StreamedResponse):
        response.encoder = _StreamCompressor(encoding, call.sender)
    elif response.is_file:
        response.body = await asyncio.to_thread(_compressed_file, body, encoding)
    elif len(body) > _MOST_IN_LOOP:
        response.body = await _THREADS.run(call.sender, partial(_compress, body, encoding, _LEVEL))
    else:
        response.body = _compress(body, encoding, _LEVEL)
    return response


def _is_text(response: Response | StreamedResponse) -> bool:
    kind = next((value for name, value in response.headers if name == b"content-type"), b"")
    return kind.startswith(_TYPES) and not kind.startswith(_EVENTS)


def _compress(text: bytes, encoding: str, level: int) -> bytes:
    if encoding == "zstd":
        whole: bytes = zstd.compress(text, level)
        return whole
    return zlib.compress(text, level, wbits=16 + zlib.MAX_WBITS)


@lru_cache(maxsize=256)
def _compressed_file(text: bytes, encoding: str) -> bytes:
    return _compress(text, encoding, _LEVEL_OF_FILES)


class _StreamCompressor:
    """Compresses a stream. Every chunk can be read as soon as it arrives."""

    def __init__(self, encoding: str, sender: Hashable) -> None:
        self._sender = sender
        self._zstd: Any = None
        if encoding == "zstd":
            parameters = zstd.CompressionParameter
            options = {parameters.compression_level: _LEVEL, parameters.window_log: _WINDOW_BITS}
            self._zstd = zstd.ZstdCompressor(options=options)
        self._gzip = zlib.compressobj(_LEVEL, wbits=16 + zlib.MAX_WBITS) if self._zstd is None else None

    async def encode(self, chunk: bytes) -> bytes:
        """Return a chunk in the encoding."""
        if len(chunk) > _MOST_IN_LOOP:
            return await _THREADS.run(self._sender, partial(self._encode, chunk))
        return self._encode(chunk)

    def _encode(self, chunk: bytes) -> bytes:
        if self._gzip is not None:
            return self._gzip.compress(chunk) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        encoded: bytes = self._zstd.compress(chunk, self._zstd.FLUSH_BLOCK)
        return encoded

    def end(self) -> bytes:
        """Return what follows the last chunk."""
        if self._gzip is not None:
            return self._gzip.flush()
        encoded: bytes = self._zstd.flush()
        return encoded
