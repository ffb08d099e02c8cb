"""The consumers of messages and rows that set an item aside when it fails by itself."""

from enum import StrEnum

from gridfleet.kernel import metrics, outbox

__all__ = ["Consumer"]


class Consumer(StrEnum):
    """The consumer of an item: the label of `gridfleet_set_aside_total` and the value of `set_aside.consumer`."""

    COMMANDS = "commands"
    EFFECTS = outbox.CONSUMER
    ESM_PLANTS = "esm_plants"
    INGEST = "ingest"
    NOTIFICATIONS = "notifications"
    PARTNER_COMMANDS = "partner_orders"
    PARTNER_EVENTS = "partner_events"
    ROLL_UPS = "roll_ups"
    SITES = "sites"


for _consumer in Consumer:
    # Start at 0: `increase` of a counter whose first sample is 1 is 0, and no alert would fire.
    metrics.SET_ASIDE.labels(_consumer)
