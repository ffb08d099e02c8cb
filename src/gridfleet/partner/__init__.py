"""Former import path of `gridfleet.sdk.partner`. This package will be removed in the next release."""

import warnings

from gridfleet.sdk import partner as _new
from gridfleet.sdk.partner import CommandKind as Order
from gridfleet.sdk.partner import CommandRefused as OrderRefused
from gridfleet.sdk.partner import Event, EventKind, LoginRefused

__all__ = ["Event", "EventKind", "LoginRefused", "Order", "OrderRefused", "Partner"]

warnings.warn(
    "gridfleet.partner is now gridfleet.sdk.partner; Order is CommandKind, Partner.order is send",
    DeprecationWarning,
    stacklevel=2,
)


class Partner(_new.Partner):
    """The client with the former name of `send`."""

    order = _new.Partner.send
