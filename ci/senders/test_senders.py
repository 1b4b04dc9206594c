"""Debian's real senders against the server: what they send is found again, and a bad message in the
middle costs nothing else.

Run by `cargo run -p logsvc-ci -- senders`. A sender that is not installed is skipped, but not where
CI is set.
"""

import datetime
import os
import subprocess
import tempfile
import time
import unittest

import senders
from parts import free_ports
from senders import LogServer, Rsyslog, SyslogNg, files_of, find, run

# The longest message of the server, and a longer one that daemons still send on.
LIMIT_BYTES = 8192
LONG = "x" * 10_000
# The server refuses what is older than a week.
OLD_S = 30 * 86400

# What each relay is given: priority, and text. The severities and levels follow from the priority.
FIRST, LONG_ONE, OLD_ONE, ODD, LAST = range(5)
# Hosts whose messages are sent on in a form that has neither zone, year nor parts of seconds.
NO_ZONE = "no-zone"
FIRST_TEXT = 'one "quoted" [x] \N{SNOWMAN}'
STRUCTURED = '[x@1 k="a \\"b\\" \\]"]'
# Priorities are facility * 8 + severity: user.err, local4.warning, daemon.debug.
PRIORITIES = {FIRST: 11, LONG_ONE: 14, OLD_ONE: 14, ODD: 164, LAST: 31}
EXPECTED = {
    FIRST: {"facility": "user", "severity": "err", "level": "error"},
    ODD: {"facility": "local4", "severity": "warning", "level": "warn"},
    LAST: {"facility": "daemon", "severity": "debug", "level": "debug"},
}


def stamp(time_us, hours):
    """RFC 3339 with microseconds, in a zone."""
    zone = datetime.timezone(datetime.timedelta(hours=hours))
    seconds, micros = divmod(time_us, 1_000_000)
    moment = datetime.datetime.fromtimestamp(seconds, zone).replace(microsecond=micros)
    return moment.isoformat(timespec="microseconds")


def given(host, begin_us):
    """The messages that a relay is given for a host, a second apart."""
    # A form without zones keeps the digits of the zone that the message had.
    hours = 0 if host.endswith(NO_ZONE) else 5
    texts = {
        FIRST: FIRST_TEXT.encode(),
        LONG_ONE: LONG.encode(),
        OLD_ONE: b"old",
        ODD: b"no UTF-8: \xff!",
        LAST: b'{"a":1}',
    }
    for number, text in texts.items():
        time_us = begin_us + number * 1_000_000 - (OLD_S * 1_000_000 if number == OLD_ONE else 0)
        head = f"<{PRIORITIES[number]}>1 {stamp(time_us, hours)} {host} shop 77 ID47 {STRUCTURED} "
        yield head.encode() + text


class Senders(unittest.TestCase):
    """A server with listeners, and what all tests of senders need."""

    maxDiff = None
    SCHEME = "http"

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="logsvc-senders-")
        cls.folder = cls.temporary.name
        cls.port, cls.http = free_ports(2)
        try:
            cls.server = LogServer("logsvc", cls.folder, cls.http, cls.SCHEME, cls.arguments())
        except BaseException:
            cls.temporary.cleanup()
            raise

    @classmethod
    def arguments(cls):
        return [
            f"--intake.syslog.tcp-address=127.0.0.1:{cls.port}",
            f"--intake.syslog.max-message-size={LIMIT_BYTES}",
        ]

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        end = cls.server.tail()
        cls.temporary.cleanup()
        assert "panicked" not in end, end

    def relay(self, kind, actions):
        """Gives a daemon the messages for all hosts, and checks what it has sent on."""
        begin_us = int((time.time() - 100) * 1_000_000)
        too_long = self.server.discarded("line_too_long")
        daemon = kind(self.folder, free_ports(1)[0], actions)
        try:
            messages = [message for host in actions for message in given(host, begin_us)]
            senders.send_frames(daemon.ready_url, messages)
            for host in actions:
                with self.subTest(host):
                    self.check(host, begin_us)
            told = self.server.discarded("line_too_long") - too_long
            self.assertEqual(told, len(actions))
        finally:
            daemon.stop()

    def check(self, host, begin_us):
        """All good messages of a host have arrived as they should, and the bad ones are told."""
        unit_us = 1_000_000 if host.endswith(NO_ZONE) else 1
        found = self.server.wait_for_entries(f'{{host="{host}"}}', 3)
        texts = [FIRST_TEXT, "no UTF-8: \N{REPLACEMENT CHARACTER}!", '{"a":1}']
        self.assertEqual([line[:100] for _, _, line in found], texts)
        for (labels, time_ns, _), number in zip(found, [FIRST, ODD, LAST]):
            expected = {"app": "shop", "host": host, "pid": "77", **EXPECTED[number]}
            if host.endswith("5424"):
                expected |= {"msgid": "ID47", "k": 'a "b" ]'}
            self.assertEqual({key: labels.get(key) for key in expected}, expected)
            time_us = begin_us + number * 1_000_000
            self.assertEqual(time_ns, time_us // unit_us * unit_us * 1000)
        [old] = self.server.refusals(reason="greater_than_max_sample_age", stream=f'host="{host}"')
        self.assertEqual(old["entries"], 1)


class PlainSenders(Senders):
    """Everything that needs no certificates."""

    def test_rsyslog_in_all_its_forms(self):
        target = f'target="127.0.0.1" port="{self.port}" protocol="tcp"'
        octets = 'TCP_Framing="octet-counted"'
        # Its default form is RSYSLOG_TraditionalForwardFormat.
        actions = {
            "rs-no-zone": target,
            "rs-octets-no-zone": f"{target} {octets}",
            "rs-forward": f'{target} template="RSYSLOG_ForwardFormat"',
            "rs-5424": f'{target} template="RSYSLOG_SyslogProtocol23Format"',
            "rs-octets-5424": f'{target} {octets} template="RSYSLOG_SyslogProtocol23Format"',
        }
        self.relay(Rsyslog, actions)

    def test_syslog_ng_with_both_drivers(self):
        at = f'"127.0.0.1" port({self.port}) transport("tcp")'
        template = "'<$PRI>$ISODATE $HOST $MSGHDR$MSG\n'"
        drivers = {
            "ng-network-no-zone": f"network({at}",
            "ng-network-iso": f"network({at} frac-digits(6) template({template})",
            "ng-network-5424": f"network({at} flags(syslog-protocol) frac-digits(6)",
            "ng-syslog-5424": f"syslog({at} frac-digits(6)",
        }
        destinations = {host: f'{one} persist-name("{host}"))' for host, one in drivers.items()}
        self.relay(SyslogNg, destinations)

    def test_logger_in_all_its_forms(self):
        to = ["-n", "127.0.0.1", "-P", str(self.port), "-T", "-t", "shop", "--size", "20000"]
        forms = {
            "3164": ["--rfc3164"],
            "3164-octets": ["--rfc3164", "--octet-count"],
            "5424": ["--rfc5424"],
            "5424-octets": ["--rfc5424", "--octet-count"],
            "5424-bare": ["--rfc5424=notime,notq,nohost", "--octet-count"],
        }
        for name, form in forms.items():
            with self.subTest(name):
                unique = f"logger-{name}"
                lines = [f"<11>one {unique}", f"<14>{LONG} {unique}", f"<164>two {unique}"]
                begin_s = int(time.time())
                run(find("logger"), *form, *to, "--prio-prefix", input="\n".join(lines).encode())
                found = self.server.wait_for_entries(f'{{app="shop"}} |= "{unique}"', 2)
                self.assertEqual([line for _, _, line in found], [f"one {unique}", f"two {unique}"])
                for (labels, time_ns, _), number in zip(found, [FIRST, ODD]):
                    expected = EXPECTED[number]
                    self.assertEqual({key: labels.get(key) for key in expected}, expected)
                    self.assertTrue(begin_s <= time_ns / 1e9 <= time.time() + 1)
                host = "127.0.0.1" if name == "5424-bare" else os.uname().nodename.split(".")[0]
                self.assertEqual(found[0][0]["host"], host)

    def test_systemd_journal_upload(self):
        begin_us = int((time.time() - 100) * 1_000_000)
        entries = [
            ("first", "PRIORITY=3", 0),
            ("old", "PRIORITY=3", -OLD_S * 1_000_000),
            (None, "PRIORITY=3", 1_000_000),
            ("odd priority", "PRIORITY=99", 2_000_000),
            ("two\nlines", "PRIORITY=4", 3_000_000),
        ]
        texts = [journal_entry(text, begin_us + after_us, field) for text, field, after_us in entries]
        path = os.path.join(self.folder, "one.journal")
        make = [find("systemd-journal-remote"), "-o", path, "--split-mode=none", "-"]
        run(*make, input="".join(texts).encode())
        upload = find("systemd-journal-upload")
        run(upload, "--url=" + self.server.url, "--follow=no", "--file=" + path)
        found = self.server.wait_for_entries('{host="jh"}', 3)
        self.assertEqual([line for _, _, line in found], ["first", "odd priority", "two\nlines"])
        times = [begin_us * 1000 + after_us * 1000 for after_us in [0, 2_000_000, 3_000_000]]
        self.assertEqual([time_ns for _, time_ns, _ in found], times)
        labels = {"unit": "shop.service", "identifier": "shop", "pid": "77", "priority": "3"}
        self.assertEqual({key: found[0][0].get(key) for key in labels}, labels)
        self.assertEqual([one.get("level") for one, _, _ in found], ["error", None, "warn"])
        for reason in ["greater_than_max_sample_age", "unreadable"]:
            [refused] = self.server.refusals(reason=reason, route="upload")
            self.assertEqual(refused["entries"], 1)
        # What is sent once more is there once.
        run(upload, "--url=" + self.server.url + "/journald", "--follow=no", "--file=" + path)
        self.assertEqual(self.server.entries('{host="jh"}'), found)


def journal_entry(message, time_us, field):
    """An entry in the export format. A message with line breaks has its length in front."""
    lines = [
        f"__REALTIME_TIMESTAMP={time_us}",
        f"__MONOTONIC_TIMESTAMP={time_us - OLD_S}",
        "_BOOT_ID=0123456789abcdef0123456789abcdef",
        "_HOSTNAME=jh",
        "_SYSTEMD_UNIT=shop.service",
        "SYSLOG_IDENTIFIER=shop",
        "_PID=77",
        field,
    ]
    if message is not None and "\n" in message:
        length = len(message).to_bytes(8, "little").decode()
        lines.append(f"MESSAGE\n{length}{message}")
    elif message is not None:
        lines.append(f"MESSAGE={message}")
    return "\n".join(lines) + "\n\n"


class DatagramSenders(Senders):
    """Senders of datagrams. Busybox has nothing else."""

    @classmethod
    def arguments(cls):
        return [
            f"--intake.syslog.udp-address=127.0.0.1:{cls.port}",
            f"--intake.syslog.max-message-size={LIMIT_BYTES}",
        ]

    def test_rsyslog(self):
        target = f'target="127.0.0.1" port="{self.port}" protocol="udp"'
        actions = {
            "rs-no-zone": target,
            "rs-5424": f'{target} template="RSYSLOG_SyslogProtocol23Format"',
        }
        self.relay(Rsyslog, actions)

    def test_syslog_ng(self):
        at = f'"127.0.0.1" port({self.port}) transport("udp")'
        drivers = {
            "ng-no-zone": f'network({at} persist-name("a"))',
            "ng-5424": f'syslog({at} frac-digits(6) persist-name("b"))',
        }
        self.relay(SyslogNg, drivers)

    def test_logger(self):
        to = ["-n", "127.0.0.1", "-P", str(self.port), "-d", "-t", "shop", "--size", "20000"]
        for form in ["--rfc3164", "--rfc5424"]:
            with self.subTest(form):
                lines = [f"<11>one {form}", f"<14>{LONG} {form}", f"<164>two {form}"]
                run(find("logger"), form, *to, "--prio-prefix", input="\n".join(lines).encode())
                found = self.server.wait_for_entries(f'{{app="shop"}} |= "{form}"', 2)
                self.assertEqual([line for _, _, line in found], [f"one {form}", f"two {form}"])
                self.assertEqual([one["level"] for one, _, _ in found], ["error", "warn"])

    def test_busybox(self):
        busybox = find("busybox")
        # Its syslogd listens to /dev/log and to nothing else, so it gets a /dev of its own.
        dev = os.path.join(self.folder, "dev")
        os.mkdir(dev)
        with open(os.path.join(dev, "null"), "wb"):
            pass
        if subprocess.run([find("unshare"), "-rm", "true"], check=False).returncode != 0:
            self.skipTest("no mounts of its own are allowed to a program here")
        script = """
            mount --bind "$1" /dev || exit 9
            "$2" syslogd -n -R "127.0.0.1:$3" &
            while [ ! -S /dev/log ]; do "$2" sleep 0.05; done
            "$2" logger -t shop -p user.err "one ☃"
            "$2" logger -t shop -p user.err ""
            "$2" logger -t "shop[77]" -p local4.warning "two [x]: y"
            "$2" sleep 0.2
            kill $!
            wait
        """
        begin_s = int(time.time())
        run(find("unshare"), "-rm", "sh", "-c", script, "sh", dev, busybox, str(self.port))
        # It names no host.
        found = self.server.wait_for_entries('{host="127.0.0.1", app="shop"}', 3)
        expected = [("one ☃", "error", None), ("", "error", None), ("two [x]: y", "warn", "77")]
        told = [(line, labels["level"], labels.get("pid")) for labels, _, line in found]
        self.assertEqual(told, expected)
        for _, time_ns, _ in found:
            self.assertTrue(begin_s <= time_ns / 1e9 <= time.time() + 1)


class TlsSenders(Senders):
    """Senders over TLS, which know the server by its certificate."""

    SCHEME = "https"

    @classmethod
    def arguments(cls):
        cls.cert, key = senders.certificate(cls.folder)
        return [
            f"--intake.syslog.tls-address=127.0.0.1:{cls.port}",
            f"--intake.syslog.max-message-size={LIMIT_BYTES}",
            f"--server.http-tls-cert-path={cls.cert}",
            f"--server.http-tls-key-path={key}",
        ]

    def test_rsyslog(self):
        files_of("usr/lib/*/rsyslog/lmnsd_gtls.so")
        action = (
            f'target="127.0.0.1" port="{self.port}" protocol="tcp" TCP_Framing="octet-counted" '
            'template="RSYSLOG_SyslogProtocol23Format" StreamDriver="gtls" StreamDriverMode="1" '
            'StreamDriverAuthMode="x509/name" StreamDriverPermittedPeers="localhost" '
            f'StreamDriver.CAFile="{self.cert}"'
        )
        self.relay(Rsyslog, {"rs-tls-5424": action})

    def test_syslog_ng(self):
        tls = f'tls(ca-file("{self.cert}") peer-verify(yes))'
        at = f'"127.0.0.1" port({self.port}) transport("tls") {tls} frac-digits(6)'
        self.relay(SyslogNg, {"ng-tls-5424": f"syslog({at})"})

    def test_systemd_journal_upload(self):
        begin_us = int((time.time() - 100) * 1_000_000)
        path = os.path.join(self.folder, "tls.journal")
        make = [find("systemd-journal-remote"), "-o", path, "--split-mode=none", "-"]
        run(*make, input=journal_entry("secret", begin_us, "PRIORITY=6").encode())
        upload = [find("systemd-journal-upload"), "--url=" + self.server.url]
        run(*upload, "--trust=" + self.cert, "--key=-", "--cert=-", "--follow=no", "--file=" + path)
        [(_, time_ns, line)] = self.server.wait_for_entries('{host="jh"}', 1)
        self.assertEqual((time_ns, line), (begin_us * 1000, "secret"))


if __name__ == "__main__":
    unittest.main()
