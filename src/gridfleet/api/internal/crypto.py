"""The encryption keys of stored credentials, for SuperAdmins."""

from typing import Annotated

from pydantic import Field

from gridfleet.api.http import SA, Call, Input, endpoint, super_admin
from gridfleet.domains.maintenance import rewrapping
from gridfleet.domains.maintenance.rewrapping import Rewrapped
from gridfleet.kernel.caller import UserCaller


class RewrapRequest(Input):
    """The version of the keyring to encrypt everything with."""

    target_version: Annotated[int, Field(ge=1)]


@endpoint("POST", "/api/v1/internal/crypto/rewrap", caller=super_admin(), codes=("VALIDATION_ERROR", *SA))
async def rewrap_credentials(call: Call, caller: UserCaller, body: RewrapRequest) -> Rewrapped:
    """Encrypt every stored credential again with one version of the keyring, while the service runs.

    Rows that have the version already are not counted. An interrupted call can be repeated.
    """
    state = call.state
    return await rewrapping.rewrap(state.database, state.keyring, body.target_version, caller.as_actor)
