"""A collector of OpenTelemetry: a server that takes what is sent over HTTP, and reads the protobuf."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

__all__ = ["Collector", "collector"]


@dataclass
class Collector:
    """What has arrived up to now, under a lock of its own."""

    address: str = ""
    spans: list[Any] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    services: set[str] = field(default_factory=set)
    headers: list[str | None] = field(default_factory=list)
    raw: bytes = b""
    arrived: threading.Condition = field(default_factory=threading.Condition)

    @property
    def variables(self) -> dict[str, str]:
        """The environment that leads here, and soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.address,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-collector=open-sesame",
            "OTEL_METRIC_EXPORT_INTERVAL": "50",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def wait_until(self, is_so: Any) -> None:
        """Wait until what has arrived is as expected."""
        with self.arrived:
            assert self.arrived.wait_for(is_so, timeout=30), (self.spans, self.metrics)

    def take(self, path: str, body: bytes, header: str | None) -> None:
        """A request has come."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        with self.arrived:
            self.raw += body
            self.headers.append(header)
            if path == "/v1/traces":
                for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                    self._note(part.resource)
                    self.spans += [span for scope in part.scope_spans for span in scope.spans]
            else:
                assert path == "/v1/metrics"
                for each in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    self._note(each.resource)
                    self.metrics |= {
                        metric.name: metric for scope in each.scope_metrics for metric in scope.metrics
                    }
            self.arrived.notify_all()

    def _note(self, resource: Any) -> None:
        known = {each.key: each.value.string_value for each in resource.attributes}
        self.services.add(known["service.name"])

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """The last points of a metric: attributes, and the point itself."""
        if name not in self.metrics:
            return []
        metric = self.metrics[name]
        points = getattr(metric, metric.WhichOneof("data")).data_points
        return [({each.key: _value(each.value) for each in point.attributes}, point) for point in points]

    def total(self, name: str) -> int:
        """How many values a histogram has."""
        return sum(point.count for _, point in self.points(name))


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


@contextmanager
def collector() -> Iterator[Collector]:
    """One that listens until the end of the block."""
    pytest.importorskip("opentelemetry.proto", reason="pip install --group dev")
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["content-type"] == "application/x-protobuf"
            body = self.rfile.read(int(self.headers["content-length"]))
            found.take(self.path, body, self.headers["x-collector"])
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
