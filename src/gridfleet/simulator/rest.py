"""The REST calls of a simulation, with one login for all of them."""

import asyncio
from types import TracebackType
from typing import Any, Final, Self

import httpx

from gridfleet.simulator.errors import ApiRefused, ApiUnreachable

__all__ = ["Api"]

_PAGE: Final = 100
_TRIES: Final = 5
_LONGEST_WAIT_SECONDS: Final = 30.0


class Api:
    """A SuperAdmin's session with the service at `base_url`. Use it as an asynchronous context manager.

    Every call raises `ApiRefused` for an error response and `ApiUnreachable` without a response. An expired access token is
    replaced. After a rate-limit response the call waits and retries.
    """

    def __init__(self, base_url: str, email: str, password: str) -> None:
        self.base_url = base_url.rstrip("/").removesuffix("/api/v1")
        self._credentials = {"email": email, "password": password}
        self._token = ""
        self._login = asyncio.Lock()
        self._client = httpx.AsyncClient(base_url=f"{self.base_url}/api/v1", timeout=30)

    async def __aenter__(self) -> Self:
        await self._log_in("")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(self, path: str, org: str | None = None, **query: str | int) -> Any:
        """Return the JSON response to a GET."""
        return await self._call("GET", path, org, params=query)

    async def post(self, path: str, body: Any = None, org: str | None = None) -> Any:
        """Return the JSON response to a POST."""
        return await self._call("POST", path, org, json=body)

    async def patch(self, path: str, body: Any, org: str | None = None) -> Any:
        """Return the JSON response to a PATCH."""
        return await self._call("PATCH", path, org, json=body)

    async def list(self, path: str, org: str | None = None) -> list[dict[str, Any]]:
        """Return every record of a paged list."""
        records: list[dict[str, Any]] = []
        page = 1
        while True:
            response = await self.get(path, org, page=page, limit=_PAGE)
            records += response["data"]
            if page >= response["meta"]["totalPages"]:
                return records
            page += 1

    async def _call(self, method: str, path: str, org: str | None, **request: Any) -> Any:
        for _ in range(_TRIES):
            token = self._token
            headers = {"authorization": f"Bearer {token}"} | ({"x-org-id": org} if org else {})
            response = await self._send(method, path, headers=headers, **request)
            if response.status_code != httpx.codes.UNAUTHORIZED:
                break
            await self._log_in(token)
        return _read(method, path, response)

    async def _log_in(self, spent_token: str) -> None:
        """Log in, unless another call has done so since `spent_token` was used."""
        async with self._login:
            if self._token == spent_token:
                response = await self._send("POST", "/auth/login", json=self._credentials)
                self._token = _read("POST", "/auth/login", response)["access_token"]

    async def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        for attempt in range(_TRIES):
            try:
                response = await self._client.request(method, path, **request)
            except httpx.TransportError as error:
                raise ApiUnreachable(f"nothing responds at {self.base_url} ({error}): is the service running?") from error
            if response.status_code != httpx.codes.TOO_MANY_REQUESTS or attempt == _TRIES - 1:
                break
            await asyncio.sleep(min(float(response.headers.get("retry-after", 1)), _LONGEST_WAIT_SECONDS))
        return response


def _read(method: str, path: str, response: httpx.Response) -> Any:
    if response.is_success:
        return response.json()
    try:
        body = response.json()
        details = "; ".join(map(str, body.get("details") or []))
        code, message = str(body["code"]), str(body["message"]) + (f" ({details})" if details else "")
    except (ValueError, KeyError, TypeError, AttributeError):
        code, message = "", response.text[:200]
    raise ApiRefused(f"{method} {path}", response.status_code, code, message)
