"""The encryption keys of stored credentials, for SuperAdmins."""

from typing import Annotated

from pydantic import Field

from gridfleet.api.http import SA, Call, Input, endpoint, super_admin
from gridfleet.domains.maintenance import rewrapping
from gridfleet.domains.maintenance.rewrapping import KeyVersion, Rewrapped
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection


class RewrapRequest(Input):
    """The version of the keyring to encrypt everything with."""

    target_version: Annotated[int, Field(ge=1)]


@endpoint("GET", "/api/v1/internal/crypto/key-versions", caller=super_admin(), codes=SA, addition=True)
async def list_key_versions(call: Call, db: Connection) -> list[KeyVersion]:
    """List the versions of the keyring, and how many stored rows are encrypted with each.

    A former version that encrypts no rows can be removed from the keyring once the tokens that it signed have expired.
    """
    return await rewrapping.versions_in_use(db, call.state.keyring)


@endpoint("POST", "/api/v1/internal/crypto/rewrap", caller=super_admin(), codes=("VALIDATION_ERROR", *SA))
async def rewrap_credentials(call: Call, caller: UserCaller, body: RewrapRequest) -> Rewrapped:
    """Encrypt every stored credential again with one version of the keyring, while the service runs.

    Rows that have the version already are not counted. An interrupted call can be repeated.
    """
    state = call.state
    return await rewrapping.rewrap(state.database, state.keyring, body.target_version, caller.as_actor)
