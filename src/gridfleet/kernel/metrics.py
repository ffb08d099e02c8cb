"""Every metric of the service. No label identifies a tenant: the number of series must not grow with the fleet.

Each process is scraped by itself. Metrics in `ON_REQUEST` are read from the database and from files at each scrape. Only
`serve` returns them, because every process would read the same value.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase

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
    "DATABASE_REPLICA_LAG_SECONDS",
    "DATABASE_UP",
    "DATABASE_WAITING",
    "ESM_REQUESTS",
    "EVENT_LOOP_LAG_SECONDS",
    "HISTORY_READS",
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
    "PARTNER_COMMANDS",
    "PARTNER_EVENTS",
    "PARTNER_EVENTS_DROPPED",
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
    "request_seconds",
]

disable_created_metrics()  # type: ignore[no-untyped-call]

_REQUEST_BUCKETS: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

ON_REQUEST = CollectorRegistry(auto_describe=True)
"""Metrics that `serve` reads at each scrape."""

HTTP_REQUEST_SECONDS = Histogram(
    "gridfleet_http_request_seconds",
    "Requests to the REST API by method, route template and status, and the time until the response was sent.",
    ["method", "route", "status"],
    buckets=_REQUEST_BUCKETS,
)
BROKER_QUESTIONS = Counter(
    "gridfleet_broker_questions_total",
    "Authorisation requests of the broker by kind of client, question, answer and reason.",
    ["client", "question", "answer", "reason"],
)
BROKER_QUESTION_SECONDS = Histogram(
    "gridfleet_broker_question_seconds",
    "Time to answer an authorisation request of the broker.",
    ["question"],
    buckets=_REQUEST_BUCKETS,
)

INGEST_MESSAGES = Counter("gridfleet_ingest_messages_total", "Messages of plants by result.", ["result"])
INGEST_POINTS = Counter("gridfleet_ingest_points_total", "Values committed.")
INGEST_UNDECLARED_FIELDS = Counter(
    "gridfleet_ingest_undeclared_fields_total", "Fields that were dropped because no signal declares them."
)
INGEST_LAG_SECONDS = Gauge(
    "gridfleet_ingest_lag_seconds",
    "Age of the oldest message of the last batch when it was committed. 0 if no batch was committed for a minute.",
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
    "gridfleet_cache_reads_total", "Reads of the response cache by backend and result.", ["backend", "result"]
)
UNROUTED_MESSAGES = Gauge("gridfleet_unrouted_messages", "Messages that no queue took, which wait in `unrouted`.")
LOGINS = Counter("gridfleet_logins_total", "Logins of users by outcome.", ["outcome"])
MAILS = Counter("gridfleet_mails_total", "Attempts to send a mail by outcome.", ["outcome"])
OUTBOX_EFFECTS = Counter(
    "gridfleet_outbox_effects_total", "Attempts to carry out an effect of the outbox by kind and outcome.", ["kind", "outcome"]
)
COMMANDS = Counter(
    "gridfleet_commands_total",
    "Commands to plants by the state that they reached. LATE: acknowledgements that arrived after the command had ended.",
    ["state"],
)
ALERTS_RAISED = Counter("gridfleet_alerts_raised_total", "Alerts raised by rules.", ["severity"])
ESM_REQUESTS = Counter("gridfleet_esm_requests_total", "Calls of organisations' ESMs by call and result.", ["call", "result"])
NOTIFICATIONS = Counter(
    "gridfleet_notifications_total", "Attempts to deliver notifications by channel and result.", ["channel", "result"]
)
PARTNER_COMMANDS = Counter("gridfleet_partner_orders_total", "Partner commands by their first acknowledgement.", ["ack"])
PARTNER_EVENTS = Counter(
    "gridfleet_partner_events_total", "Events for partners that the broker has accepted, by kind.", ["kind"]
)
PARTNER_EVENTS_DROPPED = Counter(
    "gridfleet_partner_events_dropped_total",
    "Events for partners that were dropped, by reason. maxlen: the partner's queue was full; expired: they waited"
    " in the queue for a day; stale: the vhost did not accept them for a day; surplus: more than 1 GiB of an organisation's"
    " telemetry waited for its vhosts; unserved: no key of the organisation may use the broker, or trading is disabled.",
    ["reason"],
)
PARTNER_QUEUES_REMOVED = Counter(
    "gridfleet_partner_queues_removed_total",
    "Queues that partners declared and the gateway removed, by the forbidden argument.",
    ["reason"],
)
PARTNER_VHOSTS = Gauge("gridfleet_partner_vhosts", "Partners' vhosts that the gateway serves.")
AUDIT_EVENTS = Counter("gridfleet_audit_events_total", "Audit events by event.", ["event"])
JOBS = Counter("gridfleet_jobs_total", "Attempts of jobs by name and outcome.", ["name", "outcome"])
JOB_SECONDS = Histogram(
    "gridfleet_job_seconds", "Time of each attempt of a job.", ["name"], buckets=(0.01, 0.05, 0.25, 1, 5, 15, 60, 300)
)
BROKER_CONNECTIONS = Gauge("gridfleet_broker_connections", "Open AMQP connections of the service to the broker.")
TASK_FAILURES = Counter("gridfleet_task_failures_total", "Failures of supervised tasks; each task is restarted.", ["task"])
SET_ASIDE = Counter(
    "gridfleet_set_aside_total", "Messages and rows that failed by themselves and were set aside, by consumer.", ["consumer"]
)
DATABASE_CONNECTIONS = Gauge(
    "gridfleet_database_connections",
    "Connections of the pools to the database by kind of process, pool and state.",
    ["process", "pool", "state"],
)
DATABASE_REPLICA_LAG_SECONDS = Gauge(
    "gridfleet_database_replica_lag_seconds",
    "How far the replica of the database lags; up to two seconds more than the real lag. Infinite if the replica is"
    " unavailable, 0 without one.",
)
HISTORY_READS = Counter(
    "gridfleet_history_reads_total",
    "Reads of history by result. replica: at the replica; repeated: first at the replica, which failed or lagged too far,"
    " then at the primary; primary: at the primary only.",
    ["result"],
)
DATABASE_WAITING = Gauge(
    "gridfleet_database_waiting",
    "Callers that wait for a connection of a pool.",
    ["process", "pool"],
)
PROCESSES = Gauge("gridfleet_processes", "Running processes by kind.", ["process"])
PROCESS_MEMORY_BYTES = Gauge("gridfleet_process_memory_bytes", "Resident memory of the processes of each kind.", ["process"])
PROCESS_FILES = Gauge(
    "gridfleet_process_open_files",
    "Open files and sockets of one process: the highest number among the processes of each kind.",
    ["process"],
)
PROCESS_CPU_SECONDS = Counter("gridfleet_process_cpu_seconds_total", "CPU time of the processes of each kind.", ["process"])
EVENT_LOOP_LAG_SECONDS = Histogram(
    "gridfleet_event_loop_lag_seconds",
    "How late timers of the event loop fire, measured twice a second.",
    ["process"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
)
CERTIFICATE_EXPIRY = Gauge(
    "gridfleet_certificate_expiry_timestamp_seconds",
    "Unix time at which the certificates that the broker and `serve` show, and the authority's, expire.",
    ["certificate"],
    registry=ON_REQUEST,
)
DATABASE_UP = Gauge(
    "gridfleet_database_up",
    "1 if the database responded, or if it was slow or all reserved connections were in use but it accepted a new one.",
    registry=ON_REQUEST,
)
QUEUE_LENGTH = Gauge(
    "gridfleet_queue_length",
    "Rows that wait in the queues of the database; at most 10,000 are counted.",
    ["queue"],
    registry=ON_REQUEST,
)
QUEUE_OLDEST_SECONDS = Gauge(
    "gridfleet_queue_oldest_seconds",
    "How long the first row of a queue has been due.",
    ["queue"],
    registry=ON_REQUEST,
)


@cache
def request_seconds(method: str, route: str, status: int) -> Histogram:
    """Return HTTP_REQUEST_SECONDS of a route. Cached: the library's own look-up takes half of the time to count a request."""
    return HTTP_REQUEST_SECONDS.labels(method, route, status)


def all_metrics() -> Iterator[MetricWrapperBase]:
    """Yield every metric that is declared here."""
    for value in globals().values():
        if isinstance(value, MetricWrapperBase):
            yield value
