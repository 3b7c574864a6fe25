"""What OpenTelemetry is told of calls and runs, and the way to the collector that the environment names.

The instruments are those of its API, and count nothing without a provider. No attribute has a value of a
parameter, an output, or an id of which nothing was found; no span has the words of an error.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.runs.records import REFUSED, RUNNING, RunRecord

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["EXTRA_MISSING", "call_ended", "exporting", "row_written"]

EXTRA_MISSING: Final = "OpenTelemetry is not told anything: pip install 'rye-mcp[otel]'"
"""What the log says where the environment names a collector, and the extra is not installed."""

END_LIMIT_S: Final = 2.0
"""How long the end of a server waits for a collector that does not answer."""

_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_ENDPOINTS: Final = {
    "traces": (_ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    "metrics": (_ENDPOINT, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
}
_BOUNDARIES_S: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

_REFUSED_BY_PROTOCOL: Final = "rpc.response.status_code"
_NAMES: Final = frozenset({"gen_ai.tool.name", "gen_ai.prompt.name"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Instruments:
    calls: Histogram
    runs: Counter
    durations: Histogram


_in_flight: Final[set[str]] = set()


@cache
def _instruments() -> _Instruments:
    from opentelemetry.metrics import Observation, get_meter

    def in_flight(_: Any) -> Iterator[Observation]:
        yield Observation(len(_in_flight))

    meter = get_meter("rye-mcp")
    about = "Runs that have begun and are not over."
    meter.create_observable_up_down_counter("rye.runs.active", [in_flight], "{run}", about)
    return _Instruments(
        # Its name and attributes are those of the semantic conventions.
        meter.create_histogram("mcp.server.operation.duration", "s", "How long calls over MCP take."),
        meter.create_counter("rye.runs", "{run}", "Runs that are over, and calls that were refused."),
        meter.create_histogram("rye.run.duration", "s", "How long runs take."),
    )


def call_ended(tool: str | None, code: str | None, seconds: float) -> None:
    """A call over MCP is over; `tool` is None for a name that nothing has, `code` says what went wrong."""
    attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool or "_OTHER"}
    _instruments().calls.record(seconds, attributes | _error(code))


def row_written(record: RunRecord) -> None:
    """A row of the log was written: a run has begun, is over, or was refused."""
    instruments = _instruments()
    if record.kind == RUNNING:
        _in_flight.add(record.run_id)
        return
    _in_flight.discard(record.run_id)
    attributes = {"rye.caller": record.caller, "rye.inner": record.parent is not None} | _error(record.code)
    if record.kind != REFUSED:
        attributes |= {"rye.item": record.item_id}
        instruments.durations.record(record.duration_ms / 1000, attributes)
    instruments.runs.add(1, attributes)


def _error(code: str | None) -> dict[str, Any]:
    return {} if code is None else {"error.type": code}


# --- the collector ---


@contextmanager
def exporting(environment: Mapping[str, str], version: str) -> Iterator[None]:
    """Send spans and metrics to the collector that the environment names, until the end of the block."""
    wanted = {name for name, variables in _ENDPOINTS.items() if any(map(environment.get, variables))}
    ends = [] if not wanted else list(_begin(wanted, version))
    try:
        yield
    finally:
        threads = [threading.Thread(target=end, daemon=True) for end in ends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(END_LIMIT_S)


def _begin(wanted: set[str], version: str) -> Iterator[Callable[[], object]]:
    """Open the way for what is wanted; how to end each."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.metrics import set_meter_provider
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
        from opentelemetry.trace import set_tracer_provider
    except ImportError:
        _log.warning(EXTRA_MISSING)
        return

    class Quiet(OTLPSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return super().export([_quiet(each) for each in spans])

    resource = Resource.create({"service.name": "rye-mcp", "service.version": version})
    if "traces" in wanted:
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(Quiet()))
        set_tracer_provider(tracers)
        yield tracers.shutdown
    if "metrics" in wanted:
        in_seconds = View(
            instrument_name="*.duration", aggregation=ExplicitBucketHistogramAggregation(_BOUNDARIES_S)
        )
        meters = MeterProvider(
            [PeriodicExportingMetricReader(OTLPMetricExporter())],
            resource=resource,
            views=[in_seconds],
            shutdown_on_exit=False,
        )
        set_meter_provider(meters)
        yield meters.shutdown


def _quiet(span: ReadableSpan) -> ReadableSpan:
    """A span without the words that the SDK of MCP gives it: those of an error quote what a client sent.

    Where the protocol refuses a message, its name of a tool or a prompt is one that nothing has, too.
    """
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Status

    attributes, name = dict(span.attributes or {}), span.name
    if _REFUSED_BY_PROTOCOL in attributes:
        name = str(attributes.get("mcp.method.name", "_OTHER"))
        attributes = {key: value for key, value in attributes.items() if key not in _NAMES}
    return ReadableSpan(
        name,
        span.context,
        span.parent,
        span.resource,
        attributes,
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
