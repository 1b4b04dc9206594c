"""Three real nodes with a real bucket in a network of their own: they die with their disks, stand
still, are cut off from each other and from the bucket, and are started again one by one. After each
trouble every node has just what was acknowledged.

LOGSVC_ROUNDS is how many rounds of random troubles follow, LOGSVC_KILLS how many nodes are killed with
their disks behind that, one soon after another. LOGSVC_SEED chooses them.
"""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

from ledger import Ledger
from net import HUB, make_hub
from nodes import Node, Store
from parts import wait_for

NODES = 3
# After so many kills the nodes are asked for all lines.
KILLS_A_ROUND = 10
# How far one of the clocks is ahead.
AHEAD_S = 40


def hide_tmp(folder):
    """Gives this mount namespace a /tmp of its own: SeaweedFS has sockets there that are named by ports
    alone, and another one on this machine may have the same ports."""
    own = os.path.join(folder, "tmp")
    os.mkdir(own)
    subprocess.run(["mount", "--bind", own, "/tmp"], check=True)


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Whatever fails, nothing is left.
        cls.folder = tempfile.TemporaryDirectory(prefix="logsvc-cluster-", dir="/var/tmp")
        cls.addClassCleanup(cls.folder.cleanup)
        hide_tmp(cls.folder.name)
        cls.addClassCleanup(subprocess.run, ["umount", "--lazy", "/tmp"], check=False)
        make_hub()
        cls.store = Store(cls.folder.name)
        cls.addClassCleanup(cls.store.stop)
        addresses = [f"10.99.0.{10 + number}" for number in range(NODES)]
        cls.nodes = []
        for number in range(NODES):
            node = Node(cls.folder.name, number, addresses, AHEAD_S if number == 2 else 0)
            cls.nodes.append(node)
            cls.addClassCleanup(node.remove)
        try:
            cls.bring_up()
        except AssertionError:
            cls.tell_last_words()
            raise
        cls.open_ledger()

    @classmethod
    def open_ledger(cls):
        cls.ledger = Ledger(str(time.time_ns()))
        cls.ledger.urls = [node.url for node in cls.nodes]
        cls.ledger.start()

    @classmethod
    def tearDownClass(cls):
        cls.ledger.stop()
        for node in cls.nodes:
            node.stop()
        for node in cls.nodes:
            assert "panicked" not in pathlib.Path(node.log).read_text(encoding="utf-8"), node.tail()

    @classmethod
    def tell_last_words(cls):
        for node in cls.nodes:
            print(f"the last words of node {node.number}:\n{node.tail()}", flush=True)

    @classmethod
    def bring_up(cls):
        """Waits until each node is ready and has its share. One that was taken over ends, perhaps not
        at once, and is started again, as a service manager would."""

        def shares():
            for node in cls.nodes:
                if not node.is_running():
                    node.start()
            owned = [node.partitions() for node in cls.nodes if node.is_ready()]
            return len(owned) == NODES and max(owned) - min(owned) <= 1 and min(owned) > 0

        wait_for("equal shares", shares, 90)

    def run(self, result=None):
        """Runs a test. If it fails, what the nodes have said comes before the next one."""
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            self.tell_last_words()
            refusals = [f"{url} {status}" for url, status in self.ledger.refusals[-30:]]
            print(f"the last pushes that were refused: {refusals}", flush=True)

    def setUp(self):
        self.ledger.begin_round()

    def tearDown(self):
        """All nodes live, and have just what was acknowledged."""
        self.bring_up()
        self.send_to(self.nodes)
        ledger = self.ledger
        print(f"  longest time without a push {ledger.longest_pause_s:.1f} s, without a whole answer "
              f"{ledger.longest_silence_s:.1f} s; {len(ledger.refusals)} pushes were repeated", flush=True)
        for node in self.nodes:
            ledger.check(node.url)

    def send_to(self, nodes):
        with self.ledger.lock:
            self.ledger.urls = [node.url for node in nodes]

    def others(self, node):
        return [other for other in self.nodes if other is not node]

    def gets_through(self, seconds):
        """Pushes and queries go on for so long."""
        begun = sum(self.ledger.acknowledged), self.ledger.answers
        time.sleep(seconds)
        wait_for("pushes", lambda: sum(self.ledger.acknowledged) > begun[0], 60)
        wait_for("answers", lambda: self.ledger.answers > begun[1], 60)

    @contextlib.contextmanager
    def cuts(self, *links):
        """What a node sends to an address does not arrive for a while."""
        try:
            for node, address in links:
                node.place.cut(address)
            yield
        finally:
            for node, address in links:
                node.place.heal(address)

    # Troubles. Each leaves the cluster as it likes: what comes behind starts the nodes again.

    def killed_with_its_disk(self, node):
        self.send_to(self.others(node))
        node.kill(with_disk=True)
        self.gets_through(8)

    def stands_still(self, node):
        self.send_to(self.others(node))
        node.process.send_signal(signal.SIGSTOP)
        self.gets_through(15)
        node.process.send_signal(signal.SIGCONT)
        # It was taken over, and notices that.
        node.wait_until_ended()

    def cut_in_one_direction(self, node):
        other = self.others(node)[0]
        with self.cuts((node, other.place.address)):
            self.gets_through(12)

    def cut_from_all_nodes(self, node):
        links = [(node, other.place.address) for other in self.others(node)]
        links += [(other, node.place.address) for other in self.others(node)]
        with self.cuts(*links):
            self.gets_through(15)
            # It was taken over, and has ended nobody itself.
            node.wait_until_ended()
            for other in self.others(node):
                self.assertTrue(other.is_running(), other.tail())

    def cut_from_the_bucket(self, node):
        # Its clients are where the bucket is, so they hear nothing from it, either. Pushes that are under way
        # get their answers.
        self.send_to(self.others(node))
        time.sleep(1)
        with self.cuts((node, HUB)):
            # It says so, and others take over from it.
            self.gets_through(25)
        node.wait_until_ended()

    def bucket_is_slow(self, _):
        for node in self.nodes:
            node.place.slow(kilobits=4000)
        self.gets_through(10)
        for node in self.nodes:
            node.place.fast()

    def bucket_is_away(self, _):
        self.store.stand_still()
        time.sleep(8)
        self.store.go_on()
        self.gets_through(3)

    def disk_is_full(self, node):
        # The file of somebody else takes what the node frees, so that it cannot write its log any more.
        self.send_to(self.others(node))
        wait_for("a takeover", lambda: node.fill_disk() or not node.is_running(), 90)
        self.gets_through(3)
        node.free_disk()

    TROUBLES = [
        killed_with_its_disk,
        stands_still,
        cut_in_one_direction,
        cut_from_all_nodes,
        cut_from_the_bucket,
        bucket_is_slow,
        bucket_is_away,
        disk_is_full,
    ]

    def test_1_a_node_is_killed_with_its_disk(self):
        self.killed_with_its_disk(self.nodes[0])
        self.assertLess(self.ledger.longest_pause_s, 20)

    def test_2_a_node_stands_still_and_comes_back(self):
        self.stands_still(self.nodes[1])

    def test_3_a_link_breaks_in_one_direction(self):
        self.cut_in_one_direction(self.nodes[2])

    def test_4_a_node_is_cut_off_from_all_others(self):
        self.cut_from_all_nodes(self.nodes[0])

    def test_5_a_node_does_not_reach_the_bucket(self):
        self.cut_from_the_bucket(self.nodes[1])

    def test_6_the_bucket_is_slow(self):
        self.bucket_is_slow(None)

    def test_7_the_bucket_is_away(self):
        self.bucket_is_away(None)

    def test_8_a_disk_is_full(self):
        self.disk_is_full(self.nodes[2])

    def test_9_all_are_restarted_one_by_one(self):
        for node in self.nodes:
            self.send_to(self.others(node))
            # Pushes that are under way get their answers.
            time.sleep(1)
            before = len(self.ledger.refusals)
            node.stop()
            self.assertEqual(node.process.returncode, 0, node.tail())
            self.bring_up()
            self.send_to(self.nodes)
            self.assertEqual(self.ledger.refusals[before:], [], "pushes at nodes that live")

    def test_a_all_die_at_once(self):
        for node in self.nodes:
            node.kill(with_disk=True)

    def test_b_troubles_at_random(self):
        seed, chance = self.chance()
        rounds = int(os.environ.get("LOGSVC_ROUNDS") or 0)
        for number in range(rounds):
            self.setUp()
            trouble, node = chance.choice(self.TROUBLES), chance.choice(self.nodes)
            print(f"seed {seed}, round {number}: {trouble.__name__}, node {node.number}", flush=True)
            trouble(self, node)
            self.tearDown()

    def test_c_one_after_another_is_killed_with_its_disk(self):
        seed, chance = self.chance()
        kills = int(os.environ.get("LOGSVC_KILLS") or 0)
        for first in range(0, kills, KILLS_A_ROUND):
            # Each check reads all lines, so there must not be too many.
            self.ledger.stop()
            self.open_ledger()
            self.setUp()
            print(f"seed {seed}, kills from {first} on", flush=True)
            for _ in range(first, min(first + KILLS_A_ROUND, kills)):
                node = chance.choice(self.nodes)
                self.send_to(self.others(node))
                node.kill(with_disk=True)
                node.start()
                # Less than the new one needs to get its share, sometimes.
                self.gets_through(chance.uniform(1, 5))
            self.tearDown()

    def chance(self):
        seed = int(os.environ.get("LOGSVC_SEED") or time.time_ns() % 1_000_000)
        return seed, random.Random(seed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
