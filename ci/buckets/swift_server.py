"""OpenStack's Swift in one process, for tests: python swift_server.py PORT EXCLUSIVE_PORT FOLDER

Account, container and object servers with one device each, and two proxies. The first one is Swift
as it is. The second one lets one creation of an object through at a time, so that two of one name
are kept apart. FOLDER needs a file system with extended attributes.

The user is test:tester, with the key testing, by Swift's own exchange at /auth/v1.0. The container is
logs.
"""

import eventlet

eventlet.monkey_patch()

import http.client  # noqa: E402
import pathlib  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import eventlet.semaphore  # noqa: E402
import eventlet.wsgi  # noqa: E402
from swift.common import utils, wsgi  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402

CONTAINER = "logs"
PARTS = ("account", "container", "object")

STORAGE = """
[DEFAULT]
devices = {folder}/devices
swift_dir = {folder}
mount_check = false
disable_fallocate = true
fallocate_reserve = 0
[pipeline:main]
pipeline = {part}-server
[app:{part}-server]
use = egg:swift#{part}
"""

PROXY = """
[DEFAULT]
swift_dir = {folder}
[pipeline:main]
pipeline = catch_errors gatekeeper {first} memory listing_formats tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
# There is one device. After ten failures of creates that race it would not be asked for a minute.
error_suppression_limit = 1000000
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:memory]
paste.filter_factory = swift_server:memory_filter
[filter:exclusive]
paste.filter_factory = swift_server:exclusive_filter
[filter:plain]
paste.filter_factory = swift_server:plain_filter
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""


class Memory:
    """What Swift's proxies keep in memcached."""

    def __init__(self):
        self.entries = {}

    def get(self, key, **_):
        value, end = self.entries.get(key, (None, 0))
        return value if not end or end > time.time() else None

    def set(self, key, value, time=0, **_):
        self.entries[key] = (value, now() + time if time else 0)

    def incr(self, key, delta=1, time=0, **_):
        value = int(self.get(key) or 0) + delta
        self.set(key, value, time)
        return value

    def decr(self, key, delta=1, time=0, **_):
        return self.incr(key, -delta, time)

    def delete(self, key, **_):
        self.entries.pop(key, None)

    def get_multi(self, keys, *_, **__):
        return [self.get(key) for key in keys]

    def set_multi(self, entries, *_, time=0, **__):
        for key, value in entries.items():
            self.set(key, value, time)


def now():
    return time.time()


def memory_filter(_, **__):
    memory = Memory()

    def wrap(app):
        def call(environment, start_response):
            environment["swift.cache"] = memory
            return app(environment, start_response)

        return call

    return wrap


def exclusive_filter(_, **__):
    """Keeps creations apart, as stores do that are not OpenStack's."""
    turn = eventlet.semaphore.Semaphore()

    def wrap(app):
        def call(environment, start_response):
            if environment["REQUEST_METHOD"] != "PUT":
                return app(environment, start_response)
            with turn:
                return [b"".join(app(environment, start_response))]

        return call

    return wrap


def plain_filter(_, **__):
    return lambda app: app


def start(app, sock):
    eventlet.spawn(eventlet.wsgi.server, sock, app, log_output=False)


def main():
    ports = [int(port) for port in sys.argv[1:3]]
    folder = pathlib.Path(sys.argv[3]).resolve()
    utils.HASH_PATH_PREFIX = utils.HASH_PATH_SUFFIX = b"tests"
    # The filters of the proxies are in this file.
    sys.modules["swift_server"] = sys.modules["__main__"]
    (folder / "devices" / "one").mkdir(parents=True)
    for part in PARTS:
        sock = eventlet.listen(("127.0.0.1", 0))
        ring = RingBuilder(4, 1, 1)
        place = {"ip": "127.0.0.1", "port": sock.getsockname()[1], "device": "one"}
        ring.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, **place})
        ring.rebalance()
        ring.get_ring().save(str(folder / f"{part}.ring.gz"))
        start(load(folder, part, STORAGE.format(folder=folder, part=part)), sock)
    for port, first in zip(ports, ("plain", "exclusive")):
        app = load(folder, first, PROXY.format(folder=folder, first=first))
        # The container is there before anybody is told.
        sock = eventlet.listen(("127.0.0.1", 0))
        start(app, sock)
        make_container(sock.getsockname()[1])
        start(app, eventlet.listen(("127.0.0.1", port)))
    while True:
        eventlet.sleep(3600)


def load(folder, name, text):
    path = folder / f"{name}.conf"
    path.write_text(text)
    return wsgi.loadapp(str(path))


def make_container(port):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    user = {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}
    connection.request("GET", "/auth/v1.0", headers=user)
    answer = connection.getresponse()
    answer.read()
    token = {"X-Auth-Token": answer.headers["X-Auth-Token"]}
    connection.request("PUT", f"/v1/AUTH_test/{CONTAINER}", headers=token)
    answer = connection.getresponse()
    if answer.status not in (201, 202):
        sys.exit(f"the container is not made: {answer.status}")
    answer.read()


main()
