"""Comparison of error responses with the codes that the OpenAPI document lists for them."""

from typing import Any


def assert_documented(document: dict[str, Any], operation: Any, answer: Any) -> None:
    """Fail if an error response has a code that its operation does not list. `operation` and `answer` are schemathesis's."""
    if answer.status_code < 400:
        return
    responses = document["paths"][operation.path][operation.method]["responses"]
    name = responses[str(answer.status_code)]["$ref"].rsplit("/", 1)[1]
    listed = document["components"]["responses"][name]["content"]["application/json"]["examples"]
    assert answer.json()["code"] in listed
