"""The programs of a cluster: SeaweedFS, which has the bucket, and nodes of the server.

LOGSVC_BINARY is the server, LOGSVC_WEED is SeaweedFS.
"""

import os
import shutil
import signal
import subprocess
import time

from net import HUB, Place
from parts import ask, wait_for

BUCKET = "logs"
START_LIMIT_S = 90


class Store:
    """SeaweedFS with one bucket. It can stand still, which looks like a store that is away."""

    def __init__(self, folder):
        data = os.path.join(folder, "seaweedfs")
        os.mkdir(data)
        self.log = os.path.join(folder, "seaweedfs.log")
        arguments = [os.environ["LOGSVC_WEED"], "server", f"-ip={HUB}", f"-dir={data}", "-s3"]
        arguments += ["-volume.max=40", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, cwd=folder)
        folder_url = f"http://{HUB}:8888/buckets/{BUCKET}/"
        wait_for("the bucket", lambda: ask(folder_url, "POST")[0] in (200, 201), START_LIMIT_S)
        wait_for("S3", lambda: ask(f"http://{HUB}:8333/{BUCKET}?list-type=2")[0] in (200, 403))

    def stand_still(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.go_on()
        self.process.kill()
        self.process.wait()


class Node:
    """A node: a place in the network, a small disk, and a process that comes and goes."""

    def __init__(self, folder, number, others, clock_ahead_s=0):
        self.number, self.clock_ahead_s = number, clock_ahead_s
        self.place = Place(number)
        self.others = others
        self.disk = os.path.join(folder, f"disk{number}")
        self.log = os.path.join(folder, f"node{number}.log")
        os.mkdir(self.disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "none", self.disk], check=True)
        self.process = None

    @property
    def url(self):
        return f"http://{self.place.address}:3100"

    def start(self):
        arguments = [*self.place.inside, os.environ["LOGSVC_BINARY"]]
        arguments += [
            "--cores=1",
            f"--data-dir={os.path.join(self.disk, 'data')}",
            "--server.http-listen-address=0.0.0.0",
            f"--common.storage.ring.instance-id=node-{self.number}",
            f"--common.instance-addr={self.place.address}",
            f"--storage.bucket=s3://{BUCKET}/cluster",
            f"--storage.bucket-endpoint=http://{HUB}:8333",
            "--memory.max-bytes=512MB",
        ]
        arguments += [f"--memberlist.join={address}" for address in self.others]
        variables = dict(os.environ)
        variables |= {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
        variables |= {"AWS_REGION": "us-east-1"}
        if self.clock_ahead_s and "LOGSVC_FAKETIME" in os.environ:
            # The time of day alone: a node needs a clock that goes at the right rate.
            variables |= {"LD_PRELOAD": os.environ["LOGSVC_FAKETIME"]}
            variables |= {"FAKETIME": f"+{self.clock_ahead_s}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, env=variables)

    def is_ready(self):
        return ask(self.url + "/ready")[0] == 200

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self, with_disk):
        """Ends the process at once, and perhaps its disk, too."""
        self.process.kill()
        self.process.wait()
        if with_disk:
            self.lose_disk()

    def lose_disk(self):
        for name in os.listdir(self.disk):
            path = os.path.join(self.disk, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def stop(self, limit_s=90):
        """Stops the process in order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(limit_s)

    def wait_until_ended(self, limit_s=60):
        end = time.monotonic() + limit_s
        while self.is_running():
            assert time.monotonic() < end, f"node {self.number} goes on: {self.tail()}"
            time.sleep(0.1)

    def partitions(self):
        for line in ask(self.url + "/metrics")[1].splitlines():
            if line.startswith("logsvc_cluster_partitions"):
                return int(float(line.split()[-1]))
        raise AssertionError("the node does not tell how many partitions it has")

    def fill_disk(self):
        """Leaves no byte free, as somebody else's file would that grows."""
        with open(os.path.join(self.disk, "filler"), "ab") as filler:
            try:
                while True:
                    filler.write(b"x" * (1 << 20))
                    filler.flush()
            except OSError:
                pass

    def free_disk(self):
        os.remove(os.path.join(self.disk, "filler"))

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-60:])

    def remove(self):
        if self.is_running():
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.place.remove()
        subprocess.run(["umount", "--lazy", self.disk], check=False)
