"""Dashboards and alerts beside a server under load, with the real Prometheus: metrics, rules and
tests of rules are those that promtool takes, and every panel has data."""

import glob
import json
import os
import re
import subprocess
import tempfile
import time
import unittest

from load import CONFIG, LIMITS, Load
from parts import Program, Webhook, ask, ask_json, free_ports, wait_for

RULES, RULES_TEST = os.environ["LOGSVC_RULES"], os.environ["LOGSVC_RULES_TEST"]
# So long may it take until everything has happened.
LIMIT_S = 90

# Metrics without samples under this load, and why.
SILENT_METRICS = {
    "loki_query_scheduler_queue_length": "queries must wait at the moment of a scrape",
}
# Panels without data under this load, by dashboard and title, and why.
SILENT_PANELS = {
    ("logsvc-queries", "Waiting by tenant"): SILENT_METRICS["loki_query_scheduler_queue_length"],
    ("logsvc-tenants", "Queries that wait"): SILENT_METRICS["loki_query_scheduler_queue_length"],
}
# Alerts that this load makes pending. Labels of metrics and expressions then fit each other.
PENDING = {
    "LogsvcClocksDiffer",
    "LogsvcEntriesRefused",
    "LogsvcPushesRefused",
    "LogsvcQueriesFail",
    "LogsvcRequestsFail",
    "LogsvcRulesFail",
    "LogsvcTenantLimited",
}

# Metrics of which promtool says that their names should be others: Loki has chosen them.
NAMES_OF_LOKI = {
    "loki_compactor_deleted_lines",
    "loki_compactor_pending_delete_requests_count",
    "loki_distributor_lag_ms_total",
    "loki_ruler_managers_total",
}


def metrics_of(query):
    """The server's metrics that a query names. Texts in quotes name none."""
    outside = " ".join(query.split('"')[::2])
    return set(re.findall(r"\b(?:loki|logsvc|process)_\w+", outside))


def has(names, metric):
    """Whether samples of the metric, or of the histogram with this name, are among the names."""
    return metric in names or metric + "_count" in names


class Operations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="logsvc-operations-")
        server, prometheus, alertmanager = free_ports(3)
        cls.url = f"http://127.0.0.1:{server}"
        cls.prometheus_url = f"http://127.0.0.1:{prometheus}"
        cls.programs = []
        cls.webhook = Webhook(alertmanager)
        try:
            cls.start_prometheus(prometheus, server)
            cls.start_server(server, f"http://127.0.0.1:{alertmanager}")
            cls.load = Load(cls.url)
        except BaseException:
            cls.stop_programs()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.load.stop()
        cls.stop_programs()
        cls.folder.cleanup()

    @classmethod
    def stop_programs(cls):
        for program in reversed(cls.programs):
            program.stop()
        cls.webhook.stop()

    @classmethod
    def write(cls, name, text):
        path = os.path.join(cls.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    @classmethod
    def start_prometheus(cls, port, server):
        config = cls.write(
            "prometheus.yml",
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{json.dumps(RULES)}]\n"
            "scrape_configs:\n"
            f"  - {{job_name: logsvc, static_configs: [{{targets: ['127.0.0.1:{server}']}}]}}\n",
        )
        arguments = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={os.path.join(cls.folder.name, 'prometheus')}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-remote-write-receiver",
        ]
        ready = cls.prometheus_url + "/-/ready"
        cls.programs.append(Program("prometheus", arguments, cls.folder.name, ready))

    @classmethod
    def start_server(cls, port, alertmanager):
        config = CONFIG.format(
            port=port,
            limits=cls.write("limits.yml", LIMITS),
            alertmanager=alertmanager,
            prometheus=cls.prometheus_url,
        )
        arguments = [
            os.environ["LOGSVC_BINARY"],
            "--config.file",
            cls.write("logsvc.yml", config),
            "--data-dir",
            os.path.join(cls.folder.name, "data"),
            "--storage.bucket",
            "file://" + os.path.join(cls.folder.name, "bucket"),
            "--cores",
            "2",
        ]
        cls.programs.append(Program("logsvc", arguments, cls.folder.name, cls.url + "/ready"))

    def ask_prometheus(self, query):
        return ask_json(self.prometheus_url + "/api/v1/query", query=query)["data"]["result"]

    def exposed(self):
        """The names of /metrics that have samples."""
        status, text = ask(self.url + "/metrics")
        self.assertEqual(status, 200)
        lines = (line for line in text.splitlines() if line and not line.startswith("#"))
        return {re.match(r"\w+", line)[0] for line in lines}

    def alert_rules(self):
        groups = ask_json(self.prometheus_url + "/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def panels(self):
        """Dashboard, title and query of each panel."""
        paths = sorted(glob.glob(os.path.join(os.environ["LOGSVC_DASHBOARDS"], "*.json")))
        self.assertTrue(paths)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                dashboard = json.load(file)
            for panel in dashboard["panels"]:
                for target in panel.get("targets", []):
                    query = target["expr"]
                    for variable in dashboard["templating"]["list"]:
                        if variable["type"] == "textbox":
                            query = query.replace("$" + variable["name"], variable["query"])
                    yield dashboard["uid"], panel["title"], query

    def test_promtool_takes_rules_and_their_tests(self):
        subprocess.run(["promtool", "check", "rules", RULES], check=True)
        folder, name = os.path.split(RULES_TEST)
        subprocess.run(["promtool", "test", "rules", name], cwd=folder, check=True)

    def test_promtool_takes_the_metrics(self):
        wait_for("rounds of load", lambda: self.load.rounds > 10, LIMIT_S)
        text = ask(self.url + "/metrics")[1]
        done = subprocess.run(
            ["promtool", "check", "metrics"], input=text, text=True, capture_output=True
        )
        # 3: it can read them, and would have chosen other names.
        self.assertIn(done.returncode, (0, 3), done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual([line for line in lines if line.split(" ")[0] not in NAMES_OF_LOKI], [])

    def test_every_metric_that_is_named_has_samples(self):
        named = set().union(*(metrics_of(query) for _, _, query in self.panels()))
        rules = wait_for("rules", self.alert_rules)
        named |= set().union(*(metrics_of(rule["query"]) for rule in rules))
        with open(os.environ["LOGSVC_MIXIN"], encoding="utf-8") as page:
            rows = [line.split("|") for line in page if line.count("|") == 5]
        said = [row[3].replace("`", '') for row in rows if row[4].strip().startswith("yes")]
        self.assertTrue(said)
        named |= set().union(*map(metrics_of, said))
        self.assertEqual(SILENT_METRICS.keys() - named, set(), "nobody names them")
        wanted = named - SILENT_METRICS.keys()
        end = time.monotonic() + LIMIT_S
        missing = wanted
        while missing and time.monotonic() < end:
            exposed = self.exposed()
            missing = {metric for metric in wanted if not has(exposed, metric)}
            time.sleep(1)
        self.assertEqual(missing, set(), "they have no samples")

    def test_every_panel_has_data(self):
        waiting = {}
        for dashboard, title, query in self.panels():
            for name, value in [("__rate_interval", "20s"), ("job", ".+"), ("instance", ".+"), ("tenant", ".+")]:
                query = query.replace("$" + name, value)
            self.assertNotRegex(query, r"\$", f"{title} of {dashboard} has a variable that nobody fills")
            waiting[dashboard, title, query] = None
        silent = {(dashboard, title) for dashboard, title, _ in waiting} & SILENT_PANELS.keys()
        self.assertEqual(SILENT_PANELS.keys() - silent, set(), "there are no such panels")
        end = time.monotonic() + LIMIT_S
        while waiting and time.monotonic() < end:
            for panel in list(waiting):
                # A query that does not parse is an error, also of a silent panel.
                found = self.ask_prometheus(panel[2])
                if panel[:2] in silent or any(one["value"][1] != "NaN" for one in found):
                    del waiting[panel]
            time.sleep(1)
        self.assertEqual(sorted(waiting), [], "they have no data")

    def test_alerts_are_evaluated_and_see_the_load(self):
        def pending():
            rules = self.alert_rules()
            wrong = [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] == "err"]
            assert not wrong, wrong
            assert {rule["health"] for rule in rules} == {"ok"}, "some were not evaluated yet"
            missing = PENDING - {rule["name"] for rule in rules if rule["state"] != "inactive"}
            assert not missing, missing
            return True

        wait_for("the alerts", pending, LIMIT_S)

    def test_requests_of_the_load_have_their_answers(self):
        wait_for("rounds of load", lambda: self.load.rounds > 20, LIMIT_S)
        self.assertEqual(self.load.faults[:5], [])


if __name__ == "__main__":
    unittest.main()
