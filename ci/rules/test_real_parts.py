"""Rules with the real Alertmanager and the real Prometheus: alerts arrive and end, samples arrive
without a gap, and states and texts are those that Prometheus gives for the same group."""

import signal
import tempfile
import time
import unittest

from parts import Parts, ask, ask_json, wait_for

SHOP = """\
name: shop
interval: 1s
rules:
    - alert: HighErrors
      expr: sum by (app) (count_over_time({app="shop"} |= "error" [10s])) > 2
      for: 2s
      labels:
        severity: page
      annotations:
        summary: '{{ $labels.app | toUpper }} has {{ $value | humanize }} errors'
    - record: app:lines:count10s
      expr: sum by (app) (count_over_time({app="ticker"}[10s]))
      labels:
        source: logs
"""

# Prometheus and this server can both evaluate these.
TEXTS = {
    "value": "{{ $value }}",
    "humanize": "{{ 1234567.891 | humanize }} {{ 0.00012 | humanize }} {{ humanize 0.0 }}",
    "humanize1024": "{{ 1048576.0 | humanize1024 }} {{ 1023.0 | humanize1024 }}",
    "duration": "{{ 93784.5 | humanizeDuration }} {{ 0.0123 | humanizeDuration }}",
    "percentage": "{{ 0.1234 | humanizePercentage }} {{ 1.0 | humanizePercentage }}",
    "timestamp": "{{ 1700000000.0 | humanizeTimestamp }}",
    "case": '{{ "aBc" | toUpper }} {{ "aBc" | toLower }} {{ "two words" | title }}',
    "regex": '{{ reReplaceAll "(a+)b" "<$1>" "aab ab b" }} {{ match "a.c" "abc" }}',
    "host": '{{ "a.example.org:9100" | stripPort }} {{ "a.example.org:9100" | stripDomain }}',
    "parse": '{{ parseDuration "1h30m" }} {{ "90" | humanizeDuration }}',
    "labels": "{{ $labels.none }}|{{ .Labels.none }}|{{ range $k, $v := $labels }}{{ $k }}{{ end }}",
    "args": '{{ define "x" }}{{ .arg0 }}-{{ .arg1 }}{{ end }}{{ template "x" (args 1 "b") }}',
    "links": '{{ graphLink "up == 0" }} {{ tableLink "up" }}',
    "query": '{{ with query "vector(7)" }}{{ . | first | value }}{{ end }}',
    "many": '{{ range query "vector(3)" }}{{ .Value }}{{ end }} {{ printf "%.2f" $value }}',
    "html": '{{ "<b>" | safeHtml }} {{ if gt $value 1.0 }}large{{ else }}small{{ end }}',
}

def same_group():
    """The group that both evaluate, without its name."""
    annotations = "".join(
        "        %s: '%s'\n" % (name, text.replace("'", "''")) for name, text in TEXTS.items()
    )
    return (
        "name: same\ninterval: 1s\nlimit: 7\nrules:\n"
        "    - alert: Firing\n      expr: vector(3) > 2\n"
        "      labels: {static: s, templated: 'v-{{ $value }}'}\n"
        "      annotations:\n" + annotations + "    - alert: Pending\n      expr: vector(1)\n      for: 1h\n"
        "    - alert: Inactive\n      expr: vector(1) > 2\n      for: 90s\n"
        "    - record: const:value\n      expr: vector(5)\n      labels: {team: core}\n"
    )


def as_rule_file(group):
    """A group as Prometheus' rule files have it."""
    lines = group.splitlines()
    return "groups:\n  - " + lines[0] + "\n" + "".join(f"    {line}\n" for line in lines[1:])


class RealParts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="logsvc-rules-")
        cls.parts = Parts(cls.folder.name, as_rule_file(same_group()))
        cls.parts.load("team", same_group())

    @classmethod
    def tearDownClass(cls):
        cls.parts.stop()
        for program in cls.parts.programs:
            assert "panicked" not in program.tail(), program.tail()
        cls.folder.cleanup()

    def active(self, name):
        """The alerts of a name that Alertmanager has."""
        alerts = ask_json(self.parts.alertmanager_url + "/api/v2/alerts")
        return [alert for alert in alerts if alert["labels"]["alertname"] == name]

    def test_an_alert_fires_survives_a_kill_and_is_resolved(self):
        parts = self.parts
        parts.load("team", SHOP)
        self.assertEqual(self.active("HighErrors"), [])
        parts.push({"app": "shop"}, [f"error {n}" for n in range(5)])

        def fires():
            parts.push({"app": "shop"}, ["an error more"])
            return self.active("HighErrors")

        [alert] = wait_for("the alert", fires)
        self.assertEqual(
            alert["labels"],
            {"alertname": "HighErrors", "app": "shop", "severity": "page", "cluster": "lab"},
        )
        self.assertRegex(alert["annotations"]["summary"], r"^SHOP has \d+ errors$")
        self.assertTrue(alert["generatorURL"].startswith("http://grafana.example:3000/explore?left="))
        starts_at = alert["startsAt"]
        parts.server.stop(signal.SIGKILL)
        parts.server.start()

        def is_sent_again():
            parts.push({"app": "shop"}, ["an error after the kill"])
            [again] = self.active("HighErrors")
            return again["updatedAt"] > alert["updatedAt"] and again

        again = wait_for("the alert after the kill", is_sent_again)
        self.assertEqual(again["startsAt"], starts_at)
        self.assertEqual(parts.webhook.alerts("HighErrors", "resolved"), [])
        # The lines leave the window.
        wait_for("the end of the alert", lambda: not self.active("HighErrors"))
        [resolved] = wait_for("resolved", lambda: parts.webhook.alerts("HighErrors", "resolved"))[:1]
        self.assertEqual(resolved["startsAt"], starts_at)

    def test_samples_arrive_without_a_gap(self):
        parts = self.parts
        parts.load("team", SHOP)
        selector = 'app:lines:count10s{app="ticker",source="logs"}'

        def tick(seconds):
            for _ in range(seconds * 2):
                parts.push({"app": "ticker"}, ["tick"])
                time.sleep(0.5)

        tick(3)
        wait_for("the first samples", lambda: parts.samples(selector, 60))
        parts.prometheus.stop()
        tick(6)
        parts.prometheus.start()
        tick(2)
        newest_ms = time.time_ns() // 1_000_000

        def has_all():
            [samples] = parts.samples(selector, 120).values()
            return samples[-1][0] >= newest_ms and samples

        samples = wait_for("the samples of the time without Prometheus", has_all)
        times = [time_ms for time_ms, _ in samples]
        self.assertGreater(len(times), 9)
        steps = {later - earlier for earlier, later in zip(times, times[1:])}
        self.assertEqual(steps, {1000}, times)
        [labels] = parts.samples(selector, 120)
        self.assertEqual(
            dict(labels),
            {
                "__name__": "app:lines:count10s",
                "app": "ticker",
                "source": "logs",
                "server": "logsvc",
            },
        )
        for name in ["ALERTS", "ALERTS_FOR_STATE"]:
            self.assertTrue(parts.samples(name + '{alertname="Firing",server="logsvc"}', 60), name)

    def test_the_listing_is_the_one_of_prometheus(self):
        parts = self.parts

        def group_of(url):
            groups = ask_json(url + "/api/v1/rules")["data"]["groups"]
            [group] = [group for group in groups if group["name"] == "same"]
            assert all(rule["health"] == "ok" for rule in group["rules"]), group
            return group

        theirs = wait_for("their group", lambda: group_of(parts.prometheus_url))
        ours = wait_for("our group", lambda: group_of(parts.url + "/prometheus"))
        self.assertEqual(masked(ours), masked(theirs))
        for kind, names in [("alert", ["Firing", "Inactive", "Pending"]), ("record", ["const:value"])]:
            answer = ask_json(parts.url + "/prometheus/api/v1/rules", type=kind, rule_group="same")
            rules = [rule for group in answer["data"]["groups"] for rule in group["rules"]]
            self.assertEqual(sorted(rule["name"] for rule in rules), names)

    def test_alerts_are_those_of_prometheus(self):
        def alerts_of(url):
            alerts = ask_json(url + "/api/v1/alerts")["data"]["alerts"]
            mine = {"Firing", "Pending", "Inactive"}
            alerts = [alert for alert in alerts if alert["labels"]["alertname"] in mine]
            assert len(alerts) == 2, alerts
            return sorted((masked(alert) for alert in alerts), key=lambda a: a["labels"]["alertname"])

        theirs = wait_for("their alerts", lambda: alerts_of(self.parts.prometheus_url))
        ours = wait_for("our alerts", lambda: alerts_of(self.parts.url + "/prometheus"))
        self.assertEqual(ours, theirs)

    def test_bad_groups_are_refused(self):
        for group, text in [
            ("name: g\nrules: [{alert: A, expr: 'sum('}]", "could not parse expression for alert 'A'"),
            ("name: g\nrules: [{alert: A, expr: vector(1), for: 90}]", "unable to decoded rule group"),
            (
                "name: g\nrules: [{alert: A, expr: vector(1), annotations: {a: '{{ $foo }}'}}]",
                'undefined variable "$foo"',
            ),
        ]:
            status, answer = ask(
                self.parts.url + "/loki/api/v1/rules/bad", "POST", group, {"Content-Type": "application/yaml"}
            )
            self.assertEqual(status, 400, answer)
            self.assertIn(text, answer)


def masked(value):
    """A listing without what differs from one server or moment to the other."""
    if isinstance(value, list):
        return [masked(item) for item in value]
    if not isinstance(value, dict):
        return value
    # Times, costs, the name of the file, the printed form of the query, and links to oneself.
    gone = {
        "activeAt", "lastEvaluation", "evaluationTime", "file", "query", "partialResponseStrategy",
        "keepFiringFor",
    }
    # Prometheus leaves an empty error out, Loki shows it.
    shown = {key: item for key, item in value.items() if (key, item) != ("lastError", "")}
    return {key: masked(item) for key, item in shown.items() if key not in gone}


if __name__ == "__main__":
    unittest.main(verbosity=2)
