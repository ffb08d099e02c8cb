"""The rate limit that account endpoints share."""

from gridfleet.api._http import Call

__all__ = ["limit_account_calls"]


async def limit_account_calls(call: Call) -> None:
    """Counts a call of an account endpoint from the caller's address. Raises TooManyRequests for one too many."""
    state = call.state
    await state.rate_limiter.hit("account", call.client_network, state.settings.account_per_address_per_minute)
