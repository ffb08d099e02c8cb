"""Browsers' reports about violations of the content security policy."""

from typing import Any, Final

from pydantic import ConfigDict, Field

from gridfleet.api.http import Call, Input, endpoint, public
from gridfleet.domains.audit.csp_reports import record_csp_report

_MAX_BYTES: Final = 8 * 1024


class CspReport(Input):
    """A report as browsers send it. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    report: dict[str, Any] = Field(alias="csp-report")


@endpoint(
    "POST",
    "/api/v1/csp-report",
    caller=public(),
    codes=("BAD_REQUEST", "PAYLOAD_TOO_LARGE", "INTERNAL_SERVER_ERROR"),
    success=204,
    content_types=("application/csp-report", "application/json"),
    max_body_bytes=_MAX_BYTES,
)
async def report_csp_violation(call: Call, body: CspReport) -> None:
    """Receive a browser's report about a violated content security policy and store it as an audit event.

    The number of reports per minute is limited, for each address and for all addresses together. Further reports get
    TOO_MANY_REQUESTS.
    """
    state = call.state
    # Limited by address first, so that one client cannot exhaust the limit for all.
    await state.rate_limiter.hit("csp", call.client_network, state.settings.csp_reports_per_address_per_minute)
    await state.rate_limiter.hit("csp of all", "", state.settings.csp_reports_per_minute)
    async with state.database.transaction() as db:
        await record_csp_report(db, body.report, call.client_ip, call.user_agent)
