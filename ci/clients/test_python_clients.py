"""Real Python clients against a running server: what they send is found again, exactly.

Run by `cargo run -p logsvc-ci -- clients`, which starts the server and installs the
clients. Every test has streams of its own, so the order of the tests does not matter.
"""

import datetime
import json
import logging
import time
import unittest

import elasticsearch.helpers
import loki_logger_handler.loki_logger_handler as json_handler
import logging_loki
import requests
import websocket
import websockets.sync.client
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    InMemoryLogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

from server_under_test import PUSH, URL, push, stored, websocket_url

TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C
SPAN_ID = 0xB7AD6B7169203331


class Test(unittest.TestCase):
    maxDiff = None


class OpenTelemetry(Test):
    """The OpenTelemetry SDK over OTLP/HTTP with protobuf."""

    ENDPOINT = URL + "/otlp/v1/logs"

    def emit(self, service, compression, *records):
        attributes = {
            "service.name": service,
            "service.namespace": "shop",
            "deployment.environment": "prod",
            "k8s.pod.name": "cart-1",
            "host.name": "h1",
            "process.pid": 4711,
        }
        provider = LoggerProvider(resource=Resource(attributes))
        exporter = OTLPLogExporter(endpoint=self.ENDPOINT, compression=compression)
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
        logger = provider.get_logger("cart.checkout", "1.2.3", attributes={"team": "blue"})
        for record in records:
            logger.emit(record)
        self.assertTrue(provider.force_flush())
        provider.shutdown()

    LABELS = {
        "service_namespace": "shop",
        "deployment_environment": "prod",
        "k8s_pod_name": "cart-1",
    }
    # What resource and scope add to each record.
    COMMON = {
        "host_name": "h1",
        "process_pid": "4711",
        "scope_name": "cart.checkout",
        "scope_version": "1.2.3",
        "team": "blue",
    }

    def test_records_with_all_that_the_protocol_has(self):
        time_ns = time.time_ns()
        span = SpanContext(TRACE_ID, SPAN_ID, is_remote=False, trace_flags=TraceFlags(1))
        self.emit(
            "otel-full",
            Compression.Gzip,
            LogRecord(
                timestamp=time_ns,
                observed_timestamp=time_ns + 5,
                context=set_span_in_context(NonRecordingSpan(span)),
                severity_text="WARN",
                severity_number=SeverityNumber.WARN,
                body="hello <world> & \N{SNOWMAN}\nsecond line",
                attributes={
                    "http.method": "GET",
                    "count": 7,
                    "ratio": 1.5,
                    "cached": True,
                    "raw": b"\x01\x02\x03",
                    "tags": ["x", "y"],
                    "user": {"id.no": "v", "age": 3},
                },
                event_name="checkout",
            ),
            LogRecord(
                timestamp=time_ns + 1,
                observed_timestamp=time_ns + 1,
                severity_number=SeverityNumber.ERROR2,
                body={"b": {"c": "<x>"}, "a": [1, 2.5, None]},
            ),
        )
        labels = {**self.LABELS, "service_name": "otel-full"}
        self.assertEqual(
            stored('{service_name="otel-full"}'),
            [
                (
                    labels,
                    time_ns,
                    "hello <world> & \N{SNOWMAN}\nsecond line",
                    {
                        **self.COMMON,
                        "http_method": "GET",
                        "count": "7",
                        "ratio": "1.5",
                        "cached": "true",
                        "raw": "AQID",
                        "tags": '["x","y"]',
                        "user_id_no": "v",
                        "user_age": "3",
                        "event_name": "checkout",
                        "flags": "1",
                        "trace_id": f"{TRACE_ID:032x}",
                        "span_id": f"{SPAN_ID:016x}",
                        "severity_number": "13",
                        "severity_text": "WARN",
                        "observed_timestamp": str(time_ns + 5),
                        "detected_level": "warn",
                    },
                ),
                (
                    labels,
                    time_ns + 1,
                    '{"a":[1,2.5,null],"b":{"c":"<x>"}}',
                    {
                        **self.COMMON,
                        "severity_number": "18",
                        "observed_timestamp": str(time_ns + 1),
                        "detected_level": "error",
                    },
                ),
            ],
        )

    def test_a_trace_is_found_by_its_id_and_a_record_by_its_level(self):
        time_ns = time.time_ns()
        for number in range(50):
            span = SpanContext(TRACE_ID + number, SPAN_ID, is_remote=True)
            severity = SeverityNumber.ERROR if number == 7 else SeverityNumber.DEBUG
            record = LogRecord(
                timestamp=time_ns + number,
                context=set_span_in_context(NonRecordingSpan(span)),
                severity_number=severity,
                body=f"request {number}",
            )
            self.emit("otel-traces", Compression.NoCompression, record)
        selector = '{service_name="otel-traces"}'
        by_trace = stored(f'{selector} | trace_id="{TRACE_ID + 31:032x}"')
        self.assertEqual([entry[1:3] for entry in by_trace], [(time_ns + 31, "request 31")])
        by_level = stored(f'{selector} | detected_level="error"')
        self.assertEqual([entry[1:3] for entry in by_level], [(time_ns + 7, "request 7")])

    def test_an_exception_carries_its_trace(self):
        try:
            raise ValueError("boom")
        except ValueError as error:
            self.emit("otel-exception", Compression.Gzip, LogRecord(body="x", exception=error))
        [(_, _, _, metadata)] = stored('{service_name="otel-exception"}')
        self.assertEqual(metadata["exception_type"], "ValueError")
        self.assertEqual(metadata["exception_message"], "boom")
        self.assertIn("raise ValueError", metadata["exception_stacktrace"])

    def test_a_refused_record_is_a_failure_that_is_not_tried_again(self):
        collected = InMemoryLogRecordExporter()
        provider = LoggerProvider(resource=Resource({"service.name": "otel-refused"}))
        provider.add_log_record_processor(SimpleLogRecordProcessor(collected))
        logger = provider.get_logger("x")
        logger.emit(LogRecord(timestamp=time.time_ns(), body="y" * 300_000))
        exporter = OTLPLogExporter(endpoint=self.ENDPOINT)
        begin = time.monotonic()
        with self.assertLogs("opentelemetry", logging.ERROR) as said:
            result = exporter.export(collected.get_finished_logs())
        self.assertEqual(result, LogRecordExportResult.FAILURE)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertIn("code: 400, reason: Bad Request", said.output[0])
        self.assertEqual(stored('{service_name="otel-refused"}'), [])


class LoggingLoki(Test):
    """python-logging-loki, in both forms of push that it knows."""

    def log(self, name, url, version):
        tags = {"app": name, "env": "test"}
        handler = logging_loki.LokiHandler(url=url, tags=tags, version=version)
        # The handler swallows errors, unless it is told otherwise.
        handler.handleError = lambda record: self.fail(f"the handler failed: {record}")
        records = []
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.addFilter(lambda record: records.append(record) or True)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.warning('a "quoted" message with a \\ and a \N{SNOWMAN}')
        logger.error("failed", extra={"tags": {"service-part": "cart"}})
        handler.emitter.close()
        common = {"app": name, "env": "test", "logger": name, "service_name": name}
        expected = [
            ({**common, "severity": "warning"}, 'a "quoted" message with a \\ and a \N{SNOWMAN}'),
            ({**common, "severity": "error", "service_part": "cart"}, "failed"),
        ]
        return records, expected

    def test_version_1(self):
        begin_ns = time.time_ns()
        _, expected = self.log("logging-v1", PUSH, "1")
        end_ns = time.time_ns()
        found = stored('{app="logging-v1"}')
        for _, time_ns, _, _ in found:
            # The client makes nanoseconds with a floating-point number.
            self.assertTrue(begin_ns - 1000 <= time_ns <= end_ns + 1000)
        self.assertEqual([(entry[0], entry[2]) for entry in found], expected)
        levels = [entry[3] for entry in found]
        self.assertEqual(levels, [{"detected_level": "warn"}, {"detected_level": "error"}])

    def test_version_0(self):
        records, expected = self.log("logging-v0", URL + "/api/prom/push", "0")
        found = stored('{app="logging-v0"}')
        self.assertEqual([(entry[0], entry[2]) for entry in found], expected)
        for record, (_, time_ns, _, _) in zip(records, found):
            # Its times have microseconds.
            self.assertEqual(time_ns % 1000, 0)
            self.assertLessEqual(abs(time_ns - record.created * 1e9), 1000)


class LokiLoggerHandler(Test):
    """loki-logger-handler: gzipped JSON with structured metadata."""

    def test_lines_labels_and_metadata(self):
        handler = json_handler.LokiLoggerHandler(
            url=PUSH,
            labels={"app": "logger-handler"},
            label_keys={"part"},
            compressed=True,
            enable_structured_loki_metadata=True,
            loki_metadata={"release": "1.2"},
            loki_metadata_keys=["request"],
        )
        logger = logging.getLogger("logger-handler")
        logger.propagate = False
        records = []
        logger.addFilter(lambda record: records.append(record) or True)
        logger.addHandler(handler)
        logger.warning("low", extra={"part": "disk", "request": 17})
        logger.error("lost", extra={"part": "net", "loki_metadata": {"try": 2}})
        handler._send()
        self.assertFalse(handler.error)
        found = stored('{app="logger-handler"}')
        labels = [{"app": "logger-handler", "part": part} for part in ["disk", "net"]]
        labels = [{**one, "service_name": "logger-handler"} for one in labels]
        self.assertEqual([entry[0] for entry in found], labels)
        self.assertEqual(
            [entry[3] for entry in found],
            [
                {"release": "1.2", "request": "17", "detected_level": "warn"},
                {"release": "1.2", "try": "2", "detected_level": "error"},
            ],
        )
        times = [int(record.created * 1e9) for record in records]
        self.assertEqual([entry[1] for entry in found], times)
        lines = [json.loads(entry[2]) for entry in found]
        self.assertEqual([line["message"] for line in lines], ["low", "lost"])
        self.assertEqual([line["level"] for line in lines], ["WARNING", "ERROR"])
        # And the fields of the lines are there for queries.
        by_field = stored('{app="logger-handler"} | json | message="lost"')
        self.assertEqual([entry[2] for entry in by_field], [found[1][2]])


class Elasticsearch(Test):
    """The client of Elasticsearch, of a newer version than it is told."""

    def test_documents_of_a_bulk(self):
        client = elasticsearch.Elasticsearch(URL + "/elasticsearch")
        self.assertTrue(client.ping())
        self.assertEqual(client.info()["tagline"], "You Know, for Search")
        # What programs do before they send.
        self.assertTrue(client.indices.exists(index="py-logs"))
        self.assertTrue(client.indices.create(index="py-logs")["acknowledged"])
        self.assertEqual(client.cat.health(format="json").body[0]["status"], "green")
        self.assertEqual(client.cat.indices(format="json").body, [])
        self.assertEqual(client.cluster.health()["status"], "green")
        begin_us = (time.time_ns() // 1_000_000_000 - 100) * 1_000_000
        moment = datetime.datetime.fromtimestamp(begin_us / 1e6, datetime.timezone.utc)
        documents = [
            {
                "_op_type": "create" if n % 2 else "index",
                "_index": "py-logs-2026.11.26",
                "@timestamp": (moment + datetime.timedelta(milliseconds=n)).isoformat(),
                "message": f"n={n} \N{SNOWMAN}",
                "host": {"name": "h1"},
                "http": {"status": n},
            }
            for n in range(1000)
        ]
        self.assertEqual(elasticsearch.helpers.bulk(client, documents), (1000, []))
        found = stored('{index="py-logs", host="h1"}')
        expected = [(begin_us + n * 1000) * 1000 for n in range(1000)]
        self.assertEqual([time_ns for _, time_ns, _, _ in found], expected)
        lines = [f"n={n} \N{SNOWMAN}" for n in range(1000)]
        self.assertEqual([line for _, _, line, _ in found], lines)
        self.assertEqual(found[7][3]["http_status"], "7")

    def test_a_refused_document_costs_nothing_else(self):
        client = elasticsearch.Elasticsearch(URL + "/elasticsearch")
        now = datetime.datetime.now(datetime.timezone.utc)
        times = [now, now - datetime.timedelta(days=30), now + datetime.timedelta(milliseconds=1)]
        documents = [
            {"_index": "py-refused", "@timestamp": at, "message": f"n={n}"}
            for n, at in enumerate(times)
        ]
        with self.assertRaises(elasticsearch.helpers.BulkIndexError) as refused:
            elasticsearch.helpers.bulk(client, documents)
        [error] = refused.exception.errors
        self.assertEqual(error["index"]["status"], 400)
        self.assertIn("too old", error["index"]["error"]["reason"])
        self.assertEqual([entry[2] for entry in stored('{index="py-refused"}')], ["n=0", "n=2"])


class Tails(Test):
    """WebSocket clients on the tail endpoints."""

    def frame(self, app, number, time_ns):
        labels = {"app": app, "service_name": app, "detected_level": "info"}
        return {
            "streams": [{"stream": labels, "values": [[str(time_ns), f"level=info n={number}"]]}],
            "dropped_entries": None,
        }

    def normal(self, text):
        """A frame with `dropped_entries` as null where it is left out or empty."""
        frame = json.loads(text)
        frame["dropped_entries"] = frame.get("dropped_entries") or None
        return frame

    def streams(self, receive, count):
        """Streams, one for each entry, from as many frames as they come in."""
        streams = []
        while len(streams) < count:
            streams += json.loads(receive())["streams"]
        return streams

    def test_websockets(self):
        url = websocket_url("/loki/api/v1/tail", {"query": '{app="tail-a"} |= "level"'})
        time_ns = time.time_ns()
        push({"app": "tail-a"}, (str(time_ns), "level=info n=0"))
        with websockets.sync.client.connect(url) as tail:
            self.assertEqual(self.normal(tail.recv(10)), self.frame("tail-a", 0, time_ns))
            push({"app": "tail-a"}, (str(time_ns + 1), "not shown"))
            for number in [2, 3]:
                push({"app": "tail-a"}, (str(time_ns + number), f"level=info n={number}"))
                expected = self.frame("tail-a", number, time_ns + number)
                self.assertEqual(self.normal(tail.recv(10)), expected)
            tail.ping().wait(10)
        self.assertEqual(tail.close_code, 1000)

    def test_a_refused_tail_says_why(self):
        url = websocket_url("/loki/api/v1/tail", {"query": "{app="})
        with self.assertRaises(websockets.exceptions.InvalidStatus) as refused:
            websockets.sync.client.connect(url)
        response = refused.exception.response
        self.assertEqual(response.status_code, 400)
        self.assertIn(b"parse error", response.body)

    def test_websocket_client(self):
        url = websocket_url("/loki/api/v1/tail", {"query": '{app="tail-b"} != "x"', "delay_for": 1})
        tail = websocket.create_connection(url, timeout=10)
        time_ns = time.time_ns()
        values = [(str(time_ns + n), f"level=info n={n}") for n in [2, 0, 1]]
        push({"app": "tail-b"}, *values)
        streams = self.streams(tail.recv, 3)
        expected = [self.frame("tail-b", n, time_ns + n)["streams"][0] for n in [0, 1, 2]]
        self.assertEqual(streams, expected)
        tail.close()

    def test_the_old_form_of_tails(self):
        url = websocket_url("/api/prom/tail", {"query": '{app="tail-c"}', "regexp": "n=[13]"})
        time_ns = 1_000_000_000 * int(time.time())
        with websockets.sync.client.connect(url) as tail:
            for number in range(4):
                push({"app": "tail-c"}, (str(time_ns + number), f"level=info n={number}"))
            streams = self.streams(lambda: tail.recv(10), 2)
        time_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_ns // 1_000_000_000))
        labels = '{app="tail-c", detected_level="info", service_name="tail-c"}'
        times = [(f"{time_text}.00000000{number}Z", number) for number in [1, 3]]
        entries = [{"ts": ts, "line": f"level=info n={number}"} for ts, number in times]
        expected = [{"labels": labels, "entries": [entry]} for entry in entries]
        self.assertEqual(streams, expected)


class Queries(Test):
    """requests, which most scripts use: sessions, compression, form bodies."""

    def test_a_session_asks_by_url_and_by_form(self):
        time_ns = time.time_ns()
        values = [(str(time_ns + n), f"n={n} " + "x" * 100) for n in range(100)]
        push({"app": "session"}, *values)
        params = {"query": '{app="session"}', "limit": "1000"}
        with requests.Session() as session:
            got = session.get(URL + "/loki/api/v1/query_range", params=params, timeout=10)
            posted = session.post(URL + "/loki/api/v1/query_range", data=params, timeout=10)
        self.assertEqual(got.headers["Content-Encoding"], "gzip")
        for answer in [got, posted]:
            [stream] = answer.json()["data"]["result"]
            newest_first = [list(value) for value in reversed(values)]
            self.assertEqual(stream["values"], newest_first)


if __name__ == "__main__":
    unittest.main()
