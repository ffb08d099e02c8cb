"""Every metric of the service, in one place. No tenant labels: their number must not grow with the fleet.

A process counts in its own memory and writes its figures down every few seconds (`kernel/metrics_sharing.py`), from where all
processes' are added up. `multiprocess_mode` says how gauges are: `livesum`, or `livemax` where a sum would mean nothing. What
is read from the database when somebody asks stands in `ON_REQUEST`: it is the same whichever process reads it.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase

from gridfleet.kernel.timings import Timings

__all__ = [
    "ALERTS_RAISED",
    "AUDIT_EVENTS",
    "BROKER_CONNECTIONS",
    "BROKER_LOGINS",
    "BROKER_QUESTIONS",
    "BROKER_QUESTION_SECONDS",
    "CACHE_READS",
    "CERTIFICATE_EXPIRY",
    "COMMANDS",
    "DATABASE_CONNECTIONS",
    "DATABASE_UP",
    "DATABASE_WAITING",
    "ESM_REQUESTS",
    "EVENT_LOOP_LAG_SECONDS",
    "HTTP_REQUEST_SECONDS",
    "INGEST_BATCH_SECONDS",
    "INGEST_LAG_SECONDS",
    "INGEST_MESSAGES",
    "INGEST_POINTS",
    "INGEST_UNDECLARED_FIELDS",
    "JOBS",
    "JOB_SECONDS",
    "LOGINS",
    "MAILS",
    "NOTIFICATIONS",
    "ON_REQUEST",
    "OUTBOX_EFFECTS",
    "PARTNER_EVENTS",
    "PARTNER_EVENTS_DROPPED",
    "PARTNER_ORDERS",
    "PARTNER_QUEUES_REMOVED",
    "PARTNER_VHOSTS",
    "PROCESSES",
    "PROCESS_CPU_SECONDS",
    "PROCESS_FILES",
    "PROCESS_MEMORY_BYTES",
    "QUEUE_LENGTH",
    "QUEUE_OLDEST_SECONDS",
    "SET_ASIDE",
    "TASK_FAILURES",
    "UNROUTED_MESSAGES",
    "all_metrics",
]

disable_created_metrics()  # type: ignore[no-untyped-call]

ON_REQUEST = CollectorRegistry(auto_describe=True)
"""Figures that whoever is asked reads anew; they are not shared among processes."""

HTTP_REQUEST_SECONDS = Timings(
    "gridfleet_http_request_seconds",
    "Requests to the REST API by route template, method and status, and their time until the answer had left.",
    ("method", "route", "status"),
)
BROKER_QUESTIONS = Counter(
    "gridfleet_broker_questions_total",
    "The broker's questions by kind of client, question, answer and reason.",
    ["client", "question", "answer", "reason"],
)
BROKER_QUESTION_SECONDS = Timings("gridfleet_broker_question_seconds", "Time to answer the broker's questions.", ("question",))

INGEST_MESSAGES = Counter("gridfleet_ingest_messages_total", "Messages from plants by what became of them.", ["result"])
INGEST_POINTS = Counter("gridfleet_ingest_points_total", "Values committed.")
INGEST_UNDECLARED_FIELDS = Counter(
    "gridfleet_ingest_undeclared_fields_total", "Fields dropped because no signal declares them."
)
INGEST_LAG_SECONDS = Gauge(
    "gridfleet_ingest_lag_seconds",
    "Age of the oldest message of the last batch when it was committed.",
    multiprocess_mode="livemax",
)
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
UNROUTED_MESSAGES = Gauge(
    "gridfleet_unrouted_messages", "Messages that matched no queue and wait in `unrouted`.", multiprocess_mode="livemax"
)
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
PARTNER_EVENTS_DROPPED = Counter(
    "gridfleet_partner_events_dropped_total",
    "Events for partners that were dropped: maxlen, a partner's queue was full; expired, they lay there for a day; stale, the"
    " vhost did not take them for a day.",
    ["reason"],
)
PARTNER_QUEUES_REMOVED = Counter(
    "gridfleet_partner_queues_removed_total", "Partners' own queues that were removed, by the forbidden argument.", ["reason"]
)
PARTNER_VHOSTS = Gauge("gridfleet_partner_vhosts", "Partners' vhosts that are served.", multiprocess_mode="livesum")
AUDIT_EVENTS = Counter("gridfleet_audit_events_total", "Audit events by what happened.", ["event"])
JOBS = Counter("gridfleet_jobs_total", "Jobs by name and outcome of each try.", ["name", "outcome"])
JOB_SECONDS = Timings(
    "gridfleet_job_seconds", "Time of each try of a job.", ("name",), bounds=(0.01, 0.05, 0.25, 1, 5, 15, 60, 300)
)
BROKER_CONNECTIONS = Gauge(
    "gridfleet_broker_connections", "AMQP connections of the service to the broker that are open.", multiprocess_mode="livesum"
)
TASK_FAILURES = Counter(
    "gridfleet_task_failures_total", "Ends of tasks that should never end; each is started again.", ["task"]
)
SET_ASIDE = Counter(
    "gridfleet_set_aside_total", "Messages and rows set aside because they fail by themselves, by consumer.", ["consumer"]
)
DATABASE_CONNECTIONS = Gauge(
    "gridfleet_database_connections",
    "Connections of the processes' pools to the database by kind of process, pool and state.",
    ["process", "pool", "state"],
    multiprocess_mode="livesum",
)
DATABASE_WAITING = Gauge(
    "gridfleet_database_waiting",
    "Callers who wait for a connection of a pool.",
    ["process", "pool"],
    multiprocess_mode="livesum",
)
PROCESSES = Gauge("gridfleet_processes", "Processes that run by kind.", ["process"], multiprocess_mode="livesum")
PROCESS_MEMORY_BYTES = Gauge(
    "gridfleet_process_memory_bytes", "Resident memory of the processes of a kind.", ["process"], multiprocess_mode="livesum"
)
PROCESS_FILES = Gauge(
    "gridfleet_process_open_files",
    "Open files and sockets of the process of a kind that has most.",
    ["process"],
    multiprocess_mode="livemax",
)
PROCESS_CPU_SECONDS = Counter("gridfleet_process_cpu_seconds_total", "CPU time of the processes of a kind.", ["process"])
EVENT_LOOP_LAG_SECONDS = Timings(
    "gridfleet_event_loop_lag_seconds",
    "How late a timer of the event loop rang, looked at twice a second.",
    ("process",),
    bounds=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
)
CERTIFICATE_EXPIRY = Gauge(
    "gridfleet_certificate_expiry_timestamp_seconds",
    "When the certificates below `home/ca` end, as a Unix time.",
    ["certificate"],
    registry=ON_REQUEST,
)
DATABASE_UP = Gauge("gridfleet_database_up", "1 if the database answered when the queues were looked at.", registry=ON_REQUEST)
QUEUE_LENGTH = Gauge(
    "gridfleet_queue_length", "What waits in the database's queues; at most 10,000 are counted.", ["queue"], registry=ON_REQUEST
)
QUEUE_OLDEST_SECONDS = Gauge(
    "gridfleet_queue_oldest_seconds",
    "For how long the first of a queue has waited since its time came.",
    ["queue"],
    registry=ON_REQUEST,
)


def all_metrics() -> Iterator[MetricWrapperBase | Timings]:
    """Every metric that is declared here."""
    for value in globals().values():
        if isinstance(value, MetricWrapperBase | Timings):
            yield value
