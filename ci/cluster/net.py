"""A small network on this machine: a hub, where the bucket and the clients are, and nodes around it.

The tests run in a network namespace of their own, which is the hub. Each node is a further namespace
with one link to it. A namespace is held by a process that sleeps, so whatever happens to the tests,
nothing of the network outlives them.

Links are cut silently: packets to an address go to a station that nobody is, as if a cable were
broken. The other direction goes on unless it is cut, too.
"""

import subprocess

HUB = "10.99.0.1"
NOBODY = "02:00:00:00:00:01"


def run(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


def make_hub():
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "hub0", "type", "bridge")
    run("ip", "addr", "add", f"{HUB}/24", "dev", "hub0")
    run("ip", "link", "set", "hub0", "up")


class Place:
    """Where a node is: an address, and a link to the hub."""

    def __init__(self, number):
        self.address = f"10.99.0.{10 + number}"
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.inside = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]
        self.port = f"port{number}"
        self.wait_until_apart()
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns",
            str(self.holder.pid))
        run("ip", "link", "set", self.port, "master", "hub0", "up")
        run(*self.inside, "ip", "link", "set", "lo", "up")
        run(*self.inside, "ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        run(*self.inside, "ip", "link", "set", "eth0", "up")

    def wait_until_apart(self):
        """The process has its namespace a moment after it has begun."""
        own = subprocess.run(["readlink", "/proc/self/ns/net"], capture_output=True, check=True)
        while True:
            link = ["readlink", f"/proc/{self.holder.pid}/ns/net"]
            its = subprocess.run(link, capture_output=True, check=False)
            if its.returncode == 0 and its.stdout != own.stdout:
                return
            if self.holder.poll() is not None:
                raise RuntimeError("no network namespace can be made")

    def cut(self, address):
        """From now on nothing that this place sends to the address arrives."""
        run(*self.inside, "ip", "neigh", "replace", address, "lladdr", NOBODY, "dev", "eth0",
            "nud", "permanent")

    def heal(self, address):
        run(*self.inside, "ip", "neigh", "del", address, "dev", "eth0")

    def slow(self, kilobits):
        """What the hub sends to this place comes through a narrow pipe with a long queue."""
        run("tc", "qdisc", "replace", "dev", self.port, "root", "tbf", "rate", f"{kilobits}kbit",
            "burst", "16kb", "latency", "400ms")
        run(*self.inside, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate",
            f"{kilobits}kbit", "burst", "16kb", "latency", "400ms")

    def fast(self):
        run("tc", "qdisc", "del", "dev", self.port, "root")
        run(*self.inside, "tc", "qdisc", "del", "dev", "eth0", "root")

    def remove(self):
        self.holder.kill()
        self.holder.wait()
