"""The rate limit shared by all account endpoints."""

from gridfleet.api.http import Call

__all__ = ["limit_account_calls"]


async def limit_account_calls(call: Call) -> None:
    """Count a call of an account endpoint from the client's network. Raises TooManyRequests above the limit."""
    state = call.state
    await state.rate_limiter.hit("account", call.client_network, state.settings.account_per_address_per_minute)
