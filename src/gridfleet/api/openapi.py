"""`/api/v1/openapi.json`: the OpenAPI document."""

import functools
import json
from importlib.metadata import version
from typing import Any

from gridfleet.api.http import Asset, Call, endpoint, public
from gridfleet.api.http.endpoint import ENDPOINTS
from gridfleet.api.http.openapi import build_document

__all__ = ["document_as_json"]


@endpoint(
    "GET", "/api/v1/openapi.json", caller=public(), codes=("INTERNAL_SERVER_ERROR",), response=dict[str, Any], addition=True
)
async def get_openapi_document(call: Call) -> Asset:
    """Return the OpenAPI 3.1 document of this version."""
    return _asset(call.state.settings.base_url)


@functools.lru_cache(maxsize=8)
def _asset(base_url: str) -> Asset:
    return Asset.tagged("application/json", document_as_json(base_url))


def document_as_json(base_url: str) -> bytes:
    """Return the document of all registered endpoints as JSON. `base_url` is the public URL of the service."""
    document = build_document(ENDPOINTS.values(), version=version("gridfleet"), base_url=base_url)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
