"""The programs that send: where they are, and daemons with configurations of their own.

Every daemon runs in the foreground, listens on loopback alone, and has its files in one temporary
folder. LOGSVC_SENDERS may name a folder into which packages are unpacked: the daemons of rsyslog and
of syslog-ng cannot be installed beside each other.
"""

import glob
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
import unittest
import urllib.request

from parts import Program, ask, ask_json, wait_for

# Where programs are that are not on the path of everybody.
FOLDERS = ["/usr/sbin", "/sbin", "/usr/lib/systemd", "/lib/systemd"]
UNPACKED = os.environ.get("LOGSVC_SENDERS", "")
PIECES = ["usr/bin", "bin"] + [folder.strip("/") for folder in FOLDERS]
# How long a program may take that sends a few messages and ends.
SEND_LIMIT_S = 15


def find(name):
    """The path of a program. Where it is missing, the test is skipped, or fails if CI is set."""
    folders = [os.path.join(UNPACKED, piece) for piece in PIECES if UNPACKED]
    folders += os.environ.get("PATH", "").split(os.pathsep) + FOLDERS
    path = shutil.which(name, path=os.pathsep.join(folders))
    if path is None and os.environ.get("CI"):
        raise AssertionError(f"there is no {name}")
    if path is None:
        raise unittest.SkipTest(f"there is no {name}")
    return path


def files_of(pattern):
    """The file or folder of a package, installed or unpacked."""
    for root in [UNPACKED, "/"]:
        found = sorted(glob.glob(os.path.join(root, pattern))) if root else []
        if found:
            return found[-1]
    raise AssertionError(f"there is no {pattern}")


def environment():
    """The environment for a program whose libraries may be unpacked."""
    libraries = ["usr/lib/*-linux-gnu", "lib/*-linux-gnu", "usr/lib/syslog-ng"]
    found = [path for one in libraries for path in glob.glob(os.path.join(UNPACKED, one))]
    # The zone of the machine must not matter to what is expected.
    extra = {"LD_LIBRARY_PATH": os.pathsep.join(found)} if UNPACKED and found else {}
    return {**os.environ, "TZ": "UTC", **extra}


def run(*arguments, **options):
    """Runs a program that sends and ends well."""
    done = subprocess.run(
        arguments, env=environment(), capture_output=True, timeout=SEND_LIMIT_S, **options
    )
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    return done


class Daemon(Program):
    """A daemon that is ready when it listens, or when its socket is there."""

    def __init__(self, name, arguments, folder, ready):
        # The program that starts them is that of the tests of rules.
        arguments = ["env", *(f"{key}={value}" for key, value in environment().items()), *arguments]
        super().__init__(name, arguments, folder, ready)

    def is_ready(self):
        self.check_running()
        socket.create_connection(("127.0.0.1", self.ready_url), timeout=1).close()
        return True


class Rsyslog(Daemon):
    """rsyslogd with messages on a port. Actions are those for messages of one host each."""

    def __init__(self, folder, port, actions):
        modules = files_of("usr/lib/*/rsyslog") if UNPACKED else None
        path = os.path.join(folder, "rsyslog.conf")
        with open(path, "w", encoding="utf-8") as file:
            # Messages go on as they came, with line breaks and at length.
            file.write('global(parser.escapeControlCharactersOnReceive="off"')
            file.write(' maxMessageSize="64k")\n')
            file.write('module(load="imptcp")\n')
            file.write(f'input(type="imptcp" address="127.0.0.1" port="{port}")\n')
            for host, action in actions.items():
                file.write(f'if $hostname == "{host}" then action(type="omfwd" {action})\n')
        arguments = [find("rsyslogd"), "-n", "-f", path, "-i", os.path.join(folder, "rsyslog.pid")]
        arguments += ["-M", modules] if modules else []
        super().__init__("rsyslog", arguments, folder, port)


class SyslogNg(Daemon):
    """syslog-ng with messages on a port. Destinations are those for messages of one host each."""

    def __init__(self, folder, port, destinations):
        program = find("syslog-ng")
        version = re.search(r"\((\d+\.\d+)", run(program, "--version").stdout.decode())[1]
        path = os.path.join(folder, "syslog-ng.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"@version: {version}\n")
            file.write("options { keep-hostname(yes); stats-freq(0); time-reopen(1); };\n")
            source = f'ip("127.0.0.1") port({port}) transport("tcp")'
            file.write(f"source s {{ syslog({source}); }};\n")
            for host, destination in destinations.items():
                match = f'filter {{ host("{host}" type(string)); }};'
                file.write(f"log {{ source(s); {match} destination {{ {destination}; }}; }};\n")
        files = [("-R", "persist"), ("-p", "pid"), ("-c", "ctl")]
        arguments = [program, "-F", "-e", "--no-caps", "-f", path]
        for flag, name in files:
            arguments += [flag, os.path.join(folder, "syslog-ng." + name)]
        if UNPACKED and program.startswith(UNPACKED):
            modules = files_of("usr/lib/syslog-ng/[0-9]*")
            arguments.append(f"--module-path={modules}")
        super().__init__("syslog-ng", arguments, folder, port)


def send_frames(port, messages):
    """Gives messages to a daemon, each with its length in front."""
    with socket.create_connection(("127.0.0.1", port), timeout=SEND_LIMIT_S) as connection:
        for message in messages:
            connection.sendall(b"%d %s" % (len(message), message))


def certificate(folder):
    """A certificate for 127.0.0.1 that is its own issuer, and its key."""
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    run(
        find("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert,
    )  # fmt: skip
    # What asks the server trusts it, too.
    context = ssl.create_default_context(cafile=cert)
    handler = urllib.request.HTTPSHandler(context=context)
    urllib.request.install_opener(urllib.request.build_opener(handler))
    return cert, key


class LogServer(Program):
    """The server under test, with its listeners for syslog."""

    def __init__(self, name, folder, port, scheme, arguments):
        self.url = f"{scheme}://127.0.0.1:{port}"
        arguments = [
            os.environ["LOGSVC_BINARY"],
            "--data-dir", os.path.join(folder, name + "-data"),
            "--server.http-listen-address", "127.0.0.1",
            "--server.http-listen-port", str(port),
            "--cores", "2",
            *arguments,
        ]  # fmt: skip
        super().__init__(name, arguments, folder, self.url + "/ready")

    def entries(self, selector):
        """All entries of a selector, oldest first: (labels, time in ns, line, metadata)."""
        now_s = time.time()
        query = {"query": selector, "direction": "forward", "limit": 5000}
        data = ask_json(
            self.url + "/loki/api/v1/query_range",
            **query, start=int(now_s) - 86400, end=int(now_s) + 3600,
        )["data"]  # fmt: skip
        entries = [
            (stream["stream"], int(time_ns), line)
            for stream in data["result"]
            for time_ns, line in stream["values"]
        ]
        return sorted(entries, key=lambda entry: entry[1])

    def wait_for_entries(self, selector, count):
        """The entries when so many are there."""

        def look():
            found = self.entries(selector)
            assert len(found) >= count, found
            return found

        return wait_for(f"{count} entries of {selector}", look, SEND_LIMIT_S)

    def refusals(self, **fields):
        """What was refused, with such fields."""
        found = ask_json(self.url + "/loki/api/v1/refusals")["data"]
        items = fields.items()
        return [one for one in found if all(value in one.get(key, "") for key, value in items)]

    def discarded(self, reason):
        """How many entries were refused for a reason."""
        status, text = ask(self.url + "/metrics")
        assert status == 200, text
        samples = re.findall(r"^loki_discarded_samples_total{(.*)} (\d+)$", text, re.M)
        return sum(int(count) for labels, count in samples if f'"{reason}"' in labels)
