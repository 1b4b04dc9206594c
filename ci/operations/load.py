"""Load for a server with everything that dashboards show: pushes that are stored, cut and refused,
queries that succeed and fail, tails, rules, deletions, files that are read again."""

import json
import socket
import threading
import time
import urllib.parse

from parts import ask

# What the server runs with.
LIMITS = """\
overrides:
  loud: {ingestion_rate_mb: 0.0001, ingestion_burst_size_mb: 0.0001}
  hasty: {query_timeout: 1ns}
"""
CONFIG = """\
auth_enabled: true
server: {{http_listen_address: 127.0.0.1, http_listen_port: {port}}}
runtime_config: {{file: {limits}, period: 1s}}
compactor: {{retention_enabled: true, delete_request_cancel_period: 1s}}
limits_config:
  deletion_mode: filter-and-delete
  max_line_size: 1KB
  max_line_size_truncate: true
  reject_old_samples_max_age: 1d
query_range: {{cache_results: true}}
ruler:
  alertmanager_url: {alertmanager}
  evaluation_interval: 1s
  remote_write:
    enabled: true
    clients:
      local: {{url: '{prometheus}/api/v1/write'}}
"""
# The second group fails: it gives more alerts than its limit.
GROUPS = [
    "name: good\ninterval: 1s\nrules:\n"
    "  - alert: Lines\n    expr: sum by (app) (count_over_time({app=\"shop\"}[10s])) > 0\n"
    "  - record: app:lines:count10s\n    expr: sum by (app) (count_over_time({app=\"shop\"}[10s]))\n",
    "name: bad\ninterval: 1s\nlimit: 1\nrules:\n"
    "  - alert: Many\n    expr: sum by (stream) (count_over_time({app=\"shop\"}[1m])) > 0\n",
]


class Load:
    """Asks again and again until it is stopped. A request that must succeed and does not is kept in
    `faults`."""

    def __init__(self, url):
        self.url, self.faults, self.rounds = url, [], 0
        self.stopped = threading.Event()
        self.tail = None
        for group in GROUPS:
            self.expect(202, "POST", "/loki/api/v1/rules/ns", group, kind="application/yaml")
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def stop(self):
        self.stopped.set()
        self.thread.join(60)
        if self.tail:
            self.tail.close()

    def run(self):
        while not self.stopped.is_set():
            try:
                self.round()
            except Exception as error:  # noqa: BLE001: whatever it is, the test shows it
                self.faults.append(repr(error))
            self.rounds += 1
            self.stopped.wait(0.1)

    def expect(self, status, method, path, body=None, tenant="shop", kind="application/json", **query):
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = {"X-Scope-OrgID": tenant, "Content-Type": kind} if tenant else {}
        found, text = ask(self.url + path, method, body, headers)
        if found != status:
            self.faults.append(f"{method} {path} of {tenant}: {found} instead of {status}: {text[:200]}")

    def push(self, status, values, tenant="shop", labels=None):
        labels = {"app": "shop", "stream": str(self.rounds % 7)} if labels is None else labels
        body = json.dumps({"streams": [{"stream": labels, "values": values}]})
        self.expect(status, "POST", "/loki/api/v1/push", body, tenant)

    def query(self, status, query, tenant="shop", **params):
        params.setdefault("start", time.time_ns() - 3600 * 10**9)
        params.setdefault("end", time.time_ns())
        self.expect(status, "GET", "/loki/api/v1/query_range", None, tenant, query=query, **params)

    def round(self):
        now_ns = time.time_ns()
        good = [[str(now_ns + i), f"line {i} of {self.rounds} error", {"id": str(i)}] for i in range(20)]
        self.push(204, good)
        self.push(204, good)  # As an agent does that saw no answer.
        self.push(204, [[str(now_ns), "a new stream"]], labels={"app": "new", "round": str(self.rounds)})
        self.push(204, [[str(now_ns + 50), "long " * 1000]])
        self.push(400, [[str(now_ns), "a bad name"]], labels={"a-b": "c"})
        many = {f"label{number}": "x" for number in range(30)}
        self.push(400, [[str(now_ns), "too many labels"]], labels=many)
        self.push(400, [[str(now_ns - 5 * 86400 * 10**9), "old"]])
        self.push(400, [[str(now_ns + 86400 * 10**9), "early"]])
        self.push(429, [[str(now_ns), "x" * 500]], tenant="loud")
        self.expect(400, "POST", "/loki/api/v1/push", "{")
        self.expect(401, "POST", "/loki/api/v1/push", "{}", tenant=None)
        self.query(200, '{app="shop"}')
        self.query(200, '{app="shop"} |= "error"')
        whole_ns = now_ns // (60 * 10**9) * 60 * 10**9
        for _ in range(2):
            # Steps of the past, of which the second time finds the answers.
            self.query(
                200,
                'sum(count_over_time({app="shop"} |= "line" [1m]))',
                start=whole_ns - 3600 * 10**9, end=whole_ns, step="60",
            )
        self.expect(200, "GET", "/loki/api/v1/query", query='sum(count_over_time({app="shop"}[1m]))')
        self.query(400, "{app=")
        self.query(504, '{app="shop"} |= "error"', tenant="hasty")
        self.push(204, good[:1], tenant="hasty")
        self.expect(200, "GET", "/loki/api/v1/labels")
        self.expect(200, "GET", "/loki/api/v1/series", **{"match[]": '{app="shop"}'})
        if self.tail is None:
            self.tail = self.open_tail()
        self.tail.settimeout(0.01)
        try:
            while self.tail.recv(65536):
                pass
        except TimeoutError:
            pass
        if self.rounds % 10 == 5:
            self.expect(204, "POST", "/flush")
        if self.rounds % 10 == 8:
            self.expect(200, "POST", "/-/reload")
            self.expect(
                204, "POST", "/loki/api/v1/delete",
                query='{app="new"}', start=now_ns // 10**9 - 600, end=now_ns // 10**9 - 1,
            )

    def open_tail(self):
        """A WebSocket that is only read."""
        host, port = self.url.removeprefix("http://").split(":")
        tail = socket.create_connection((host, int(port)), timeout=10)
        query = urllib.parse.urlencode({"query": '{app="shop"}'})
        tail.sendall(
            f"GET /loki/api/v1/tail?{query} HTTP/1.1\r\nHost: {host}\r\nX-Scope-OrgID: shop\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        head = tail.recv(4096)
        if b" 101 " not in head:
            self.faults.append(f"the tail: {head!r}")
        return tail
