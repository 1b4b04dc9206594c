"""The programs that the tests of rules start: the server, Prometheus, Alertmanager, a receiver.

Every program listens on loopback, on a port that was free, and has a folder of its own below one
temporary folder. LOGSVC_BINARY is the server.
"""

import http.server
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

START_LIMIT_S = 60
STOP_LIMIT_S = 30


def free_ports(count):
    """Ports without a listener; all are held while they are chosen, so they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def ask(url, method="GET", body=None, headers=None):
    """The status and the body of an answer, as text."""
    data = body.encode() if isinstance(body, str) else body
    request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ask_json(url, **params):
    """The JSON of an answer that must be good."""
    query = "?" + urllib.parse.urlencode(params) if params else ""
    status, text = ask(url + query)
    assert status == 200, (status, text)
    return json.loads(text)


def wait_for(what, look, limit_s=60):
    """Looks until there is something, and gives it. Programs that are starting may not answer."""
    end = time.monotonic() + limit_s
    last = None
    while time.monotonic() < end:
        try:
            last = look()
            if last:
                return last
        except (OSError, AssertionError) as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come within {limit_s} s; last seen: {last!r}")


class Program:
    """A program with its log; killed at the end if it still runs."""

    def __init__(self, name, arguments, folder, ready_url):
        self.name, self.arguments, self.ready_url = name, arguments, ready_url
        self.log = os.path.join(folder, name + ".log")
        self.process = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_for(f"{self.name} at {self.ready_url}", self.is_ready, START_LIMIT_S)

    def is_ready(self):
        self.check_running()
        return ask(self.ready_url)[0] == 200

    def check_running(self):
        """Waiting for a program that has ended is in vain."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended: {self.tail()}")

    def stop(self, how=signal.SIGTERM):
        """Ends the program and waits for that."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not stop: {self.tail()}") from None

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-40:])


class Webhook:
    """Takes the notifications that Alertmanager sends on."""

    def __init__(self, port):
        received = self.received = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def alerts(self, name, status):
        """What it was told of alerts of a name."""
        return [
            alert
            for message in self.received
            for alert in message["alerts"]
            if alert["labels"]["alertname"] == name and alert["status"] == status
        ]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Parts:
    """All programs together. Rules of Prometheus are the text of a rule file."""

    def __init__(self, folder, prometheus_rules):
        self.folder = folder
        ports = free_ports(4)
        prometheus, alertmanager, hook, server = ports
        self.prometheus_url = f"http://127.0.0.1:{prometheus}"
        self.alertmanager_url = f"http://127.0.0.1:{alertmanager}"
        self.url = f"http://127.0.0.1:{server}"
        self.programs = []
        self.webhook = Webhook(hook)
        try:
            self.prometheus = self.start_prometheus(prometheus, prometheus_rules)
            self.alertmanager = self.start_alertmanager(alertmanager, hook)
            self.server = self.start_server(server)
        except BaseException:
            self.stop()
            raise

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start_prometheus(self, port, rules):
        rules_path = self.write("prometheus-rules.yml", rules)
        config = self.write(
            "prometheus.yml",
            "global: {evaluation_interval: 1s}\n"
            f"rule_files: [{json.dumps(rules_path)}]\n",
        )
        arguments = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={os.path.join(self.folder, 'prometheus')}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-remote-write-receiver",
        ]
        return self.run("prometheus", arguments, self.prometheus_url + "/-/ready")

    def start_alertmanager(self, port, hook):
        config = self.write(
            "alertmanager.yml",
            "route: {receiver: hook, group_wait: 1s, group_interval: 1s, group_by: [alertname]}\n"
            "receivers:\n"
            "  - name: hook\n"
            "    webhook_configs:\n"
            f"      - {{url: 'http://127.0.0.1:{hook}/', send_resolved: true}}\n",
        )
        arguments = [
            "prometheus-alertmanager",
            f"--config.file={config}",
            f"--storage.path={os.path.join(self.folder, 'alertmanager')}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        return self.run("alertmanager", arguments, self.alertmanager_url + "/-/ready")

    def start_server(self, port):
        config = self.write(
            "logsvc.yml",
            "ruler:\n"
            f"  alertmanager_url: {self.alertmanager_url}\n"
            "  external_url: http://grafana.example:3000\n"
            "  external_labels: {cluster: lab}\n"
            "  evaluation_interval: 1s\n"
            "  resend_delay: 2s\n"
            "  remote_write:\n"
            "    enabled: true\n"
            "    clients:\n"
            "      local:\n"
            f"        url: {self.prometheus_url}/api/v1/write\n"
            # Prometheus evaluates some of the same rules, and a series has one writer.
            "        write_relabel_configs: [{target_label: server, replacement: logsvc}]\n",
        )
        arguments = [
            os.environ["LOGSVC_BINARY"],
            "--config.file",
            config,
            "--data-dir",
            os.path.join(self.folder, "data"),
            "--server.http-listen-address",
            "127.0.0.1",
            "--server.http-listen-port",
            str(port),
            "--cores",
            "2",
        ]
        return self.run("logsvc", arguments, self.url + "/ready")

    def run(self, name, arguments, ready_url):
        program = Program(name, arguments, self.folder, ready_url)
        self.programs.append(program)
        return program

    def stop(self):
        for program in reversed(self.programs):
            if program.process.poll() is None:
                program.stop()
        self.webhook.stop()

    def push(self, labels, lines):
        """Pushes lines of this moment."""
        now_ns = time.time_ns()
        values = [[str(now_ns + index), line] for index, line in enumerate(lines)]
        body = json.dumps({"streams": [{"stream": labels, "values": values}]})
        status, text = ask(
            self.url + "/loki/api/v1/push", "POST", body, {"Content-Type": "application/json"}
        )
        assert status == 204, (status, text)

    def load(self, namespace, group):
        """Stores a rule group as lokitool does."""
        status, text = ask(
            f"{self.url}/loki/api/v1/rules/{namespace}",
            "POST",
            group,
            {"Content-Type": "application/yaml"},
        )
        assert status == 202, (status, text)

    def samples(self, selector, seconds):
        """The samples of the last seconds that Prometheus has: by labels, (time in ms, value)."""
        data = ask_json(self.prometheus_url + "/api/v1/query", query=f"{selector}[{seconds}s]")
        return {
            tuple(sorted(series["metric"].items())): [
                (round(float(time_s) * 1000), value) for time_s, value in series["values"]
            ]
            for series in data["data"]["result"]
        }
