"""Traces by OpenTelemetry, where `otlp_endpoint` names a collector; else every function here does next to nothing.

Spans carry routes, kinds, outcomes and ids: no addresses, no query, no words of people. The library is the extra `otel`, and
is imported only when traces are wanted. Its own `OTEL_*` variables work too, such as `OTEL_TRACES_SAMPLER`.
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
    """Traces are wanted, and what makes them is not there; the text says what to install."""


class _Tracing:
    """The library, imported and set up."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.provider = provider
        self._trace = trace
        self._tracer: Tracer = provider.get_tracer("gridfleet")
        self._propagator = TraceContextTextMapPropagator()

    @contextlib.contextmanager
    def span(self, name: str, kind: Kind, parent: str | None, attributes: dict[str, str | int]) -> "Iterator[Span]":
        """A span that is the current one within the block; what fails leaves the name of its error."""
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
        """The current span as others are told of it (W3C Trace Context)."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent")

    def trace_id(self) -> str | None:
        """The current trace in hexadecimal digits."""
        context = self._trace.get_current_span().get_span_context()
        return self._trace.format_trace_id(context.trace_id) if context.is_valid else None


_tracing: _Tracing | None = None


def configure_tracing(endpoint: str, process: str) -> None:
    """Sends this process's spans to the collector at `endpoint`, if there is one. Raises `TracingNotInstalled`."""
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
    """Sends what waits, and stops tracing."""
    global _tracing
    if _tracing is not None:
        _tracing.provider.shutdown()
        _tracing = None


def is_tracing() -> bool:
    """Whether spans are made."""
    return _tracing is not None


def span(
    name: str, kind: Kind = "internal", *, parent: str | None = None, **attributes: str | int
) -> AbstractContextManager[Any]:
    """A span around the block, below the current one or `parent` (a traceparent); gives it, or None without tracing."""
    if _tracing is None:
        return _NOTHING
    return _tracing.span(name, kind, parent, {f"gridfleet.{key}": value for key, value in attributes.items()})


def traceparent() -> str | None:
    """What to tell others of the current span; None without one."""
    return None if _tracing is None else _tracing.traceparent()


def trace_id() -> str | None:
    """The current trace's id, for log lines; None without one."""
    return None if _tracing is None else _tracing.trace_id()
