"""Coded errors of trading."""

from gridfleet.kernel.errors import CodedError

__all__ = ["EsmNotConfigured", "EsmSilent", "PlantNotLinked", "TradingConfigIncomplete"]


class TradingConfigIncomplete(CodedError):
    """Address or credentials of the ESM are missing."""

    code = "TRADING_CONFIG_INCOMPLETE"
    message = "The trading configuration is not complete."


class EsmNotConfigured(CodedError):
    """The organisation has no ESM configured."""

    code = "ESM_NOT_CONFIGURED"
    message = "The organisation has no ESM: set its address and credentials first."


class PlantNotLinked(CodedError):
    """The plant has no counterpart at an ESM."""

    code = "BAD_REQUEST"
    message = "The plant is not linked to a plant of the ESM."


class EsmSilent(CodedError):
    """The ESM gave no response that can be passed on."""

    code = "INTERNAL_SERVER_ERROR"
    message = "The ESM did not respond."
