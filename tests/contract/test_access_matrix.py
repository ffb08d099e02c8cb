"""Every endpoint refuses whom its declaration excludes and lets in whom it names, on a running application."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from contract.rows import ABSENT_IS_FORBIDDEN, built
from gridfleet.api.access.guards import CallerKind, CallerRule
from gridfleet.api.http.endpoint import Endpoint
from gridfleet.domains.partners.key_text import make_key
from gridfleet.domains.partners.scopes import Scope
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_member, add_organization, add_user, session_of, super_admin_token
from support.clients.open_stream import begun
from support.servers.api_service import ApiService, api_service, bearer

BUILT = built()
UNKNOWN = "0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d"
REFUSALS = {"UNAUTHORIZED", "FORBIDDEN", "SUPER_ADMIN_REQUIRED", "ORG_MEMBERSHIP_REQUIRED"}

SCOPES = [scope.value for scope in Scope]
IDENTITIES = ["anonymous", "garbage", "stranger", *(role.name for role in OrgRole), "super_admin"]


@pytest.fixture
async def service(database_url: str, home: Path) -> AsyncIterator[ApiService]:
    async with api_service(database_url, home) as running:
        yield running


def expected_refusal(rule: CallerRule, identity: str) -> str | None:
    """The code that keeps an identity out; None lets it in."""
    if rule.kind in (CallerKind.PUBLIC, CallerKind.INTERNAL):
        return None
    if rule.kind is CallerKind.ESM_CLIENT:
        return rule.refusal  # no person is one
    if identity in ("anonymous", "garbage"):
        return "UNAUTHORIZED"
    if rule.kind is CallerKind.SESSION or identity == "super_admin":
        return None
    if rule.kind is CallerKind.SUPER_ADMIN or identity == "stranger" or rule.min_role is None:
        return rule.refusal
    return None if OrgRole[identity] >= rule.min_role else rule.refusal


def expected_of_key(endpoint: Endpoint, scope: str) -> str | None:
    """The code that keeps a key with one scope out; None lets it in. Rows that know no refusal take no keys."""
    rule = endpoint.caller
    if rule.kind in (CallerKind.PUBLIC, CallerKind.INTERNAL) or rule.scope == scope:
        return None
    return rule.refusal if rule.refusal in endpoint.codes else "UNAUTHORIZED"


async def headers_of_key(service: ApiService, scope: str) -> dict[str, str]:
    """A key with one scope, of an organisation of its own."""
    database, key = service.state.database, make_key()
    organization, maker = await add_organization(database), await add_user(database)
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, vhost, created_by,"
            " activated_at) VALUES (%s, %s, 'K', 'p', %s, %s, %s, '-', %s, now())",
            (new_id(), organization.id, key.prefix, key.digest, [scope], maker.id),
        )
    return {"x-api-key": key.text, "x-org-id": str(organization.id)}


async def headers_of(service: ApiService, identity: str) -> dict[str, str]:
    """Fresh credentials, since some endpoints end the session that calls them."""
    database, tokens = service.state.database, service.state.access_tokens
    organization = await add_organization(database)
    org = {"x-org-id": str(organization.id)}
    if identity == "anonymous":
        return org
    if identity == "garbage":
        return {**org, **bearer("eyJhbGciOiJub25lIn0.e30.")}
    if identity == "super_admin":
        return {**org, **bearer(await super_admin_token(database, tokens))}
    user = await add_user(database)
    home_of = organization if identity != "stranger" else await add_organization(database)
    await add_member(database, home_of.id, user.id, OrgRole.ORG_ADMIN if identity == "stranger" else OrgRole[identity])
    return {**org, **bearer(await session_of(database, tokens, user))}


async def code_of(service: ApiService, endpoint: Endpoint, headers: dict[str, str]) -> str | None:
    """The error code of a call with an id that no record has and, where a body is asked for, an empty one."""
    organization = endpoint.caller.organization
    path = endpoint.path.replace(f"{{{organization}}}", headers.get("x-org-id", "")) if organization else endpoint.path
    path = re.sub(r"\{\w+\}", lambda _: str(new_id()), path)
    body: dict[str, Any] = {"json": {}} if endpoint.body_type is not None else {}
    if endpoint.response_content_types == ("text/event-stream",):
        answer = await begun(service, path, headers)
    else:
        answer = await service.client.request(endpoint.method, path, headers=headers, **body)
    if answer.is_success or not answer.headers["content-type"].startswith("application/json"):
        return None
    code: str | None = answer.json().get("code")
    return code


@pytest.mark.parametrize("identity", IDENTITIES)
async def test_who_gets_in(service: ApiService, identity: str) -> None:
    wrong = []
    for endpoint in BUILT.values():
        code = await code_of(service, endpoint, await headers_of(service, identity))
        expected = expected_refusal(endpoint.caller, identity)
        if expected is None and (endpoint.method, endpoint.path) in ABSENT_IS_FORBIDDEN:
            expected = code if code == "VALIDATION_ERROR" else "FORBIDDEN"  # none was let in that would see the record
        if (code != expected) if expected is not None else (code in REFUSALS):
            wrong.append(f"{endpoint.method} {endpoint.path}: {code}, not {expected}")
    assert wrong == []


@pytest.mark.parametrize("scope", SCOPES)
async def test_what_a_scope_opens(service: ApiService, scope: str) -> None:
    headers, wrong = await headers_of_key(service, scope), []
    for endpoint in BUILT.values():
        code, expected = await code_of(service, endpoint, headers), expected_of_key(endpoint, scope)
        if expected is None and (endpoint.method, endpoint.path) in ABSENT_IS_FORBIDDEN:
            expected = code if code == "VALIDATION_ERROR" else "FORBIDDEN"  # none was let in that would see the record
        if (code != expected) if expected is not None else (code in REFUSALS):
            wrong.append(f"{endpoint.method} {endpoint.path}: {code}, not {expected}")
    assert wrong == []


@pytest.mark.parametrize("org", [None, "", "5", "x" * 36, UNKNOWN, f"{{{UNKNOWN}}}"])
async def test_the_organisation_must_be_named_and_known(service: ApiService, org: str | None) -> None:
    wrong = []
    for identity in ("ORG_ADMIN", "super_admin"):
        headers = await headers_of(service, identity)
        headers.pop("x-org-id")
        if org is not None:
            headers["x-org-id"] = org
        for endpoint in BUILT.values():
            rule = endpoint.caller
            if rule.everywhere and identity == "super_admin" and org is None:
                assert await code_of(service, endpoint, headers) is None
            elif rule.kind is CallerKind.ORG_MEMBER and rule.organization is None:
                code = await code_of(service, endpoint, headers)
                if code != "FORBIDDEN":
                    wrong.append(f"{identity} {endpoint.method} {endpoint.path}: {code}")
    assert wrong == []


async def test_internal_endpoints_are_closed_in_production(database_url: str, home: Path) -> None:
    async with api_service(database_url, home, environment="production") as service:
        for endpoint in BUILT.values():
            if endpoint.caller.kind is CallerKind.INTERNAL:
                assert await code_of(service, endpoint, await headers_of(service, "super_admin")) == "FORBIDDEN"
                path = endpoint.path
                answer = await service.client.get(path, headers={"x-internal-auth": "inside"})
                assert answer.status_code in (200, 503)


def test_a_wrong_answer_would_be_found() -> None:
    """The expectation distinguishes identities: only public endpoints admit all of them."""
    kinds = {endpoint.caller.kind for endpoint in BUILT.values()}
    assert {CallerKind.PUBLIC, CallerKind.SESSION, CallerKind.ORG_MEMBER, CallerKind.SUPER_ADMIN} <= kinds
    for endpoint in BUILT.values():
        if endpoint.caller.kind is CallerKind.ESM_CLIENT:
            assert {expected_refusal(endpoint.caller, identity) for identity in IDENTITIES} == {"UNAUTHORIZED"}
        elif endpoint.caller.kind not in (CallerKind.PUBLIC, CallerKind.INTERNAL):
            assert expected_refusal(endpoint.caller, "anonymous") == "UNAUTHORIZED"
            assert expected_refusal(endpoint.caller, "super_admin") is None
