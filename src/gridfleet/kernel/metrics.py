"""Every metric of the service, in one place. No tenant labels: their number must not grow with the fleet."""

from prometheus_client import Counter, Gauge, Histogram

__all__ = [
    "ALERTS_RAISED",
    "BROKER_LOGINS",
    "CACHE_READS",
    "COMMANDS",
    "ESM_REQUESTS",
    "INGEST_BATCH_SECONDS",
    "INGEST_LAG_SECONDS",
    "INGEST_MESSAGES",
    "INGEST_POINTS",
    "INGEST_UNDECLARED_FIELDS",
    "LOGINS",
    "MAILS",
    "NOTIFICATIONS",
    "OUTBOX_EFFECTS",
    "PARTNER_EVENTS",
    "PARTNER_ORDERS",
    "PARTNER_VHOSTS",
    "UNROUTED_MESSAGES",
]

INGEST_MESSAGES = Counter("gridfleet_ingest_messages_total", "Messages from plants by what became of them.", ["result"])
INGEST_POINTS = Counter("gridfleet_ingest_points_total", "Values committed.")
INGEST_UNDECLARED_FIELDS = Counter(
    "gridfleet_ingest_undeclared_fields_total", "Fields dropped because no signal declares them."
)
INGEST_LAG_SECONDS = Gauge("gridfleet_ingest_lag_seconds", "Age of the oldest message of the last batch when it was committed.")
INGEST_BATCH_SECONDS = Histogram(
    "gridfleet_ingest_batch_seconds",
    "Time to store one batch.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
BROKER_LOGINS = Counter(
    "gridfleet_broker_logins_total", "Logins at the broker by kind of client and outcome.", ["client", "outcome"]
)
CACHE_READS = Counter(
    "gridfleet_cache_reads_total", "Kept answers looked for, by where they are kept and what was found.", ["backend", "result"]
)
UNROUTED_MESSAGES = Gauge("gridfleet_unrouted_messages", "Messages that matched no queue and wait in `unrouted`.")
LOGINS = Counter("gridfleet_logins_total", "People's logins by outcome.", ["outcome"])
MAILS = Counter("gridfleet_mails_total", "Mails by outcome of each try to send one.", ["outcome"])
OUTBOX_EFFECTS = Counter(
    "gridfleet_outbox_effects_total", "Effects on the outside that follow changes, by kind and outcome.", ["kind", "outcome"]
)
COMMANDS = Counter(
    "gridfleet_commands_total",
    "Commands to plants by the state they reached; LATE: words of plants after a command's end.",
    ["state"],
)
ALERTS_RAISED = Counter("gridfleet_alerts_raised_total", "Alerts raised by rules.", ["severity"])
ESM_REQUESTS = Counter("gridfleet_esm_requests_total", "Calls of organisations' ESMs by call and result.", ["call", "result"])
NOTIFICATIONS = Counter("gridfleet_notifications_total", "Tries to deliver notifications.", ["channel", "result"])
PARTNER_ORDERS = Counter("gridfleet_partner_orders_total", "Partners' messages by the first word on them.", ["ack"])
PARTNER_EVENTS = Counter("gridfleet_partner_events_total", "Events that the broker has taken for partners.", ["kind"])
PARTNER_VHOSTS = Gauge("gridfleet_partner_vhosts", "Partners' vhosts that this process serves.")
