"""Traces by OpenTelemetry if `otlp_endpoint` is set; otherwise every function here does almost nothing.

Spans contain routes, kinds, outcomes and ids, but no addresses, queries or texts of users. The library is the extra `otel`. It
is imported only if traces are enabled. Its `OTEL_*` variables, such as `OTEL_TRACES_SAMPLER`, also apply.
"""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, SpanKind, Tracer

__all__ = ["Kind", "TracingNotInstalled", "configure_tracing", "end_tracing", "is_tracing", "span", "trace_id", "traceparent"]

Kind = Literal["internal", "server", "client", "producer", "consumer"]

_NOTHING: Final[AbstractContextManager[None]] = contextlib.nullcontext()


class TracingNotInstalled(RuntimeError):
    """Traces are enabled and the library is not installed; the text names the package to install."""


class _Tracing:
    """The imported and configured library."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.provider = provider
        self._trace = trace
        self._tracer: Tracer = provider.get_tracer("gridfleet")
        self._propagator = TraceContextTextMapPropagator()

    @contextlib.contextmanager
    def span(self, name: str, kind: Kind, parent: str | None, attributes: dict[str, str | int]) -> "Iterator[Span]":
        """Open a span that is current within the block. An error sets its status with the name of the error's type."""
        trace = self._trace
        context: Context | None = self._propagator.extract({"traceparent": parent}) if parent else None
        span_kind: SpanKind = trace.SpanKind[kind.upper()]
        with self._tracer.start_as_current_span(
            name, context, span_kind, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_status(trace.StatusCode.ERROR, type(error).__name__)
                raise

    def traceparent(self) -> str | None:
        """Return the current span's context for other services (W3C Trace Context); None without one."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent")

    def trace_id(self) -> str | None:
        """Return the current trace's id in hexadecimal digits; None without one."""
        context = self._trace.get_current_span().get_span_context()
        return self._trace.format_trace_id(context.trace_id) if context.is_valid else None


_tracing: _Tracing | None = None


def configure_tracing(endpoint: str, process: str) -> None:
    """Send this process's spans to the collector at `endpoint`, if it is set. Raises `TracingNotInstalled`."""
    global _tracing
    if not endpoint:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TracingNotInstalled(
            "GRIDFLEET_OTLP_ENDPOINT is set, and OpenTelemetry is not installed: .venv/bin/pip install -e '.[otel]'"
        ) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "gridfleet", "service.instance.id": process}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")))
    _tracing = _Tracing(provider)


def end_tracing() -> None:
    """Send pending spans and stop tracing."""
    global _tracing
    if _tracing is not None:
        _tracing.provider.shutdown()
        _tracing = None


def is_tracing() -> bool:
    """Return whether spans are created."""
    return _tracing is not None


def span(
    name: str, kind: Kind = "internal", *, parent: str | None = None, **attributes: str | int
) -> AbstractContextManager[Any]:
    """Open a span around the block, below the current one or `parent` (a traceparent).

    Yields the span; None without tracing.
    """
    if _tracing is None:
        return _NOTHING
    return _tracing.span(name, kind, parent, {f"gridfleet.{key}": value for key, value in attributes.items()})


def traceparent() -> str | None:
    """Return the traceparent of the current span for other services; None without one."""
    return None if _tracing is None else _tracing.traceparent()


def trace_id() -> str | None:
    """Return the current trace's id for log lines; None without one."""
    return None if _tracing is None else _tracing.trace_id()
