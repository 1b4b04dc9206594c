"""What clients of a cluster were told, and whether it holds.

Writers push lines that nobody else has, and repeat each push until it is acknowledged. Askers count
all lines, again and again. What holds:

- a line that was acknowledged before a query began is in its answer;
- no answer has a line twice, or one that nobody has pushed;
- an answer that is not whole is an error, of a kind that a client repeats.
"""

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

STREAMS = 24
LINES = 3
WRITERS = 3
AGAIN = (429, 503, 504)


def request(url, body=None, timeout_s=45):
    """The status and the bytes of an answer; the status is 0 if there was none."""
    headers = {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, body, headers), timeout=timeout_s
        ) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except (OSError, ValueError) as error:
        return 0, str(error).encode()


class Ledger:
    """Writers and askers at the nodes that are named in `urls`, which may change at any time."""

    def __init__(self, run):
        self.run = run
        self.lock = threading.Lock()
        self.urls = []
        self.acknowledged = [0] * WRITERS
        self.attempted = [0] * WRITERS
        self.faults = []
        self.refusals = []
        self.last_push = time.monotonic()
        self.longest_pause_s = 0.0
        self.answers = 0
        self.last_answer = time.monotonic()
        self.longest_silence_s = 0.0
        self.base_ns = time.time_ns()
        self.is_over = threading.Event()
        self.threads = [
            threading.Thread(target=self.write, args=(writer,), daemon=True)
            for writer in range(WRITERS)
        ]
        self.threads.append(threading.Thread(target=self.ask, daemon=True))

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def url(self, turn):
        with self.lock:
            return self.urls[turn % len(self.urls)]

    def write(self, writer):
        number, turn = 0, writer
        while not self.is_over.is_set():
            body = self.push_of(writer, number)
            with self.lock:
                self.attempted[writer] = number + 1
            while not self.is_over.is_set():
                turn += 1
                url = self.url(turn)
                status, text = request(url + "/loki/api/v1/push", body)
                if status == 204:
                    self.note_push(writer, number + 1)
                    break
                with self.lock:
                    self.refusals.append((url, status))
                    if status not in (0, *AGAIN):
                        self.faults.append(f"a push to {url} got {status}: {text[:300]!r}")
                self.is_over.wait(0.05)
            number += 1
            self.is_over.wait(0.05)

    def push_of(self, writer, number):
        """The lines of a push: some of each stream."""
        streams = []
        for stream in range(STREAMS):
            lines = [
                [str(self.base_ns + number * 1000 + line), f"{writer} {stream} {number} {line}"]
                for line in range(LINES)
            ]
            labels = {"app": "ledger", "run": self.run, "writer": str(writer), "n": str(stream)}
            streams.append({"stream": labels, "values": lines})
        return json.dumps({"streams": streams}).encode()

    def note_push(self, writer, count):
        with self.lock:
            self.acknowledged[writer] = count
            now = time.monotonic()
            self.longest_pause_s = max(self.longest_pause_s, now - self.last_push)
            self.last_push = now

    def ask(self):
        turn = 0
        while not self.is_over.is_set():
            turn += 1
            self.ask_once(self.url(turn))
            self.is_over.wait(0.1)

    def ask_once(self, url):
        least = self.lines(self.acknowledged)
        query = 'sum(count_over_time({app="ledger",run="%s"}[6h]))' % self.run
        # The clocks of nodes may be ahead; the time of the query is that of the clients.
        parameters = urllib.parse.urlencode({"query": query, "time": time.time() + 3600})
        status, text = request(f"{url}/loki/api/v1/query?{parameters}")
        most = self.lines(self.attempted)
        with self.lock:
            if status == 200:
                found = json.loads(text)["data"]["result"]
                count = int(found[0]["value"][1]) if found else 0
                self.answers += 1
                now = time.monotonic()
                self.longest_silence_s = max(self.longest_silence_s, now - self.last_answer)
                self.last_answer = now
                if not least <= count <= most:
                    self.faults.append(f"{url} counts {count}, not {least} to {most}")
            elif status not in (0, *AGAIN):
                self.faults.append(f"a query of {url} got {status}: {text[:300]!r}")

    def lines(self, pushes):
        with self.lock:
            return sum(pushes) * STREAMS * LINES

    def begin_round(self):
        """Forgets how long clients have waited."""
        with self.lock:
            self.longest_pause_s = self.longest_silence_s = 0.0
            self.last_push = self.last_answer = time.monotonic()
            self.refusals = []

    def check(self, url):
        """A node has each acknowledged line once, and none that nobody has pushed."""
        for writer in range(WRITERS):
            with self.lock:
                acknowledged = self.acknowledged[writer]
            counted, found = self.counted(url, writer), self.found(url, writer)
            with self.lock:
                attempted = self.attempted[writer]
            assert len(set(found)) == len(found), f"{url} has lines of writer {writer} twice"
            has, wanted = set(found), set(names(writer, acknowledged))
            assert not wanted - has, f"{url} lacks {len(wanted - has)}: {sorted(wanted - has)[:5]}"
            invented = has - set(names(writer, attempted))
            assert not invented, f"{url} has what nobody has pushed: {sorted(invented)[:5]}"
            for stream in range(STREAMS):
                count = counted.get(str(stream), 0)
                least, most = acknowledged * LINES, attempted * LINES
                assert least <= count <= most, f"{url} counts {count} lines of stream {stream} of " \
                    f"writer {writer}, not {least} to {most}"
        with self.lock:
            faults, self.faults = self.faults, []
        assert not faults, (len(faults), faults[:5])

    def counted(self, url, writer):
        """How many lines of each stream of a writer a node counts."""
        query = 'sum by (n) (count_over_time({app="ledger",run="%s",writer="%d"}[6h]))'
        parameters = {"query": query % (self.run, writer), "time": time.time() + 3600}
        target = f"{url}/loki/api/v1/query?{urllib.parse.urlencode(parameters)}"
        status, text = self.patiently(target)
        assert status == 200, (status, text[:300])
        vector = json.loads(text)["data"]["result"]
        return {one["metric"]["n"]: int(one["value"][1]) for one in vector}

    def found(self, url, writer):
        """All lines of a writer at a node."""
        lines, start = [], self.base_ns - 1
        while True:
            query = '{app="ledger",run="%s",writer="%d"}' % (self.run, writer)
            parameters = {"query": query, "start": start, "end": self.base_ns + 10**14}
            parameters |= {"limit": 5000, "direction": "forward"}
            target = f"{url}/loki/api/v1/query_range?{urllib.parse.urlencode(parameters)}"
            status, text = self.patiently(target)
            assert status == 200, (status, text[:300])
            streams = json.loads(text)["data"]["result"]
            page = sorted(
                (int(at), line) for stream in streams for at, line in stream["values"]
            )
            if len(page) < 5000:
                return lines + [line for _, line in page]
            # Lines of the last time may be missing: they come with the next page.
            last = page[-1][0]
            lines += [line for at, line in page if at < last]
            start = last

    def patiently(self, target, limit_s=90):
        end = time.monotonic() + limit_s
        while True:
            status, text = request(target)
            if status not in (0, *AGAIN) or time.monotonic() > end:
                return status, text
            time.sleep(0.2)


def names(writer, pushes):
    """The lines of the first pushes of a writer."""
    for number in range(pushes):
        for stream in range(STREAMS):
            for line in range(LINES):
                yield f"{writer} {stream} {number} {line}"
