"""What the tests of Python clients share: where the server is, and how to ask it.

The server's address is in LOGSVC_URL, for example http://127.0.0.1:3100. Answers are
asked for in the form that Grafana uses, with index labels and metadata apart.
"""

import os

import requests

URL = os.environ["LOGSVC_URL"]
PUSH = URL + "/loki/api/v1/push"


def websocket_url(path, query):
    """The address of a tail."""
    request = requests.Request("GET", URL + path, params=query).prepare()
    return request.url.replace("http://", "ws://", 1)


def push(stream, *values):
    """Pushes entries of one stream without any client library."""
    body = {"streams": [{"stream": stream, "values": [list(value) for value in values]}]}
    answer = requests.post(PUSH, json=body, timeout=10)
    assert answer.status_code == 204, answer.text


def stored(selector, **params):
    """All entries of a selector, oldest first: (labels, time in ns, line, metadata)."""
    answer = requests.get(
        URL + "/loki/api/v1/query_range",
        params={"query": selector, "direction": "forward", "limit": 1000, **params},
        headers={"X-Loki-Response-Encoding-Flags": "categorize-labels"},
        timeout=10,
    )
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert data["resultType"] == "streams", data
    entries = [
        (stream["stream"], int(time_ns), line, parts.get("structuredMetadata", {}))
        for stream in data["result"]
        for time_ns, line, parts in stream["values"]
    ]
    return sorted(entries, key=lambda entry: entry[1])
