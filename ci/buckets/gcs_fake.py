"""A bucket in memory that speaks as much of Google Cloud Storage's XML interface as clients of
objects need: python3 gcs_fake.py PORT BUCKET [--page-size N] [--contended]

It keeps creates apart: with `x-goog-if-generation-match: 0` a name is given once, also at the end of
an upload in parts. Each answer is one that Google's store gives:
https://cloud.google.com/storage/docs/xml-api/reference-methods

`--page-size` makes pages of listings short, so that clients have to ask for further ones.
`--contended` answers 429 to a create of a name that was tried within the last tenth of a second, as
Google's store does where one object is written more than about once in a second.

What is missing: signatures, versions, metadata, copies, delimiters in listings, bodies without a
length.
"""

import argparse
import datetime
import hashlib
import threading
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

# All parts of an upload but the last have so many bytes at least.
MIN_PART_BYTES = 5 << 20
# How long the name of a create is contended.
CONTENDED_S = 0.1


class Refusal(Exception):
    """An answer that is an error: the status, and its code for programs."""

    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


@dataclass
class Stored:
    """An object."""

    body: bytes
    etag: str
    generation: int
    time_s: float

    def headers(self):
        return {
            "ETag": self.etag,
            "Last-Modified": formatdate(self.time_s, usegmt=True),
            "x-goog-generation": str(self.generation),
            "x-goog-metageneration": "1",
            "x-goog-stored-content-length": str(len(self.body)),
        }


def etag_of(body):
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


class Bucket:
    """The state. Each method happens at one moment."""

    def __init__(self, page_size, is_contended):
        self.lock = threading.Lock()
        self.objects, self.uploads, self.tried = {}, {}, {}
        self.generation = time.time_ns() // 1000
        self.page_size, self.is_contended = page_size, is_contended

    def create(self, key, body, condition):
        with self.lock:
            return self._create(key, body, condition)

    def _create(self, key, body, condition):
        now = time.monotonic()
        last, self.tried[key] = self.tried.get(key), now
        if self.is_contended and last is not None and now - last < CONTENDED_S:
            raise Refusal(429, "SlowDown")
        there = self.objects.get(key)
        # 0 is the generation of what is not there.
        if condition is not None and condition != str(there.generation if there else 0):
            raise Refusal(412, "PreconditionFailed")
        self.generation += 1
        stored = Stored(body, etag_of(body), self.generation, time.time())
        self.objects[key] = stored
        return stored

    def get(self, key):
        with self.lock:
            if key not in self.objects:
                raise Refusal(404, "NoSuchKey")
            return self.objects[key]

    def remove(self, key):
        with self.lock:
            if self.objects.pop(key, None) is None:
                raise Refusal(404, "NoSuchKey")

    def begin(self, key):
        with self.lock:
            self.generation += 1
            upload = f"upload-{self.generation}"
            self.uploads[upload] = (key, {})
            return upload

    def _parts(self, key, upload):
        owner, parts = self.uploads.get(upload, (None, None))
        if owner != key:
            raise Refusal(404, "NoSuchUpload")
        return parts

    def put_part(self, key, upload, number, body):
        with self.lock:
            self._parts(key, upload)[number] = body
            return etag_of(body)

    def complete(self, key, upload, wanted, condition):
        with self.lock:
            have = self._parts(key, upload)
            numbers = [number for number, _ in wanted]
            if not wanted or numbers != sorted(set(numbers)):
                raise Refusal(400, "InvalidPartOrder")
            for number, etag in wanted:
                if number not in have or etag_of(have[number]) != etag:
                    raise Refusal(400, "InvalidPart")
            bodies = [have[number] for number, _ in wanted]
            if any(len(body) < MIN_PART_BYTES for body in bodies[:-1]):
                raise Refusal(400, "EntityTooSmall")
            stored = self._create(key, b"".join(bodies), condition)
            del self.uploads[upload]
            return stored

    def abort(self, key, upload):
        with self.lock:
            self._parts(key, upload)
            del self.uploads[upload]

    def page(self, prefix, after, count):
        with self.lock:
            names = sorted(k for k in self.objects if k.startswith(prefix) and k > after)
            count = min(count, self.page_size)
            return [(k, self.objects[k]) for k in names[:count]], len(names) > count


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    # Head and body leave together.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def answer(self, status, headers=None, body=b"", length=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def answer_xml(self, text, headers=None, status=200):
        body = f"<?xml version='1.0' encoding='UTF-8'?>{text}".encode()
        headers = {"Content-Type": "application/xml; charset=UTF-8", **(headers or {})}
        if self.command == "HEAD":
            self.answer(status, headers, length=len(body))
        else:
            self.answer(status, headers, body)

    def handle_request(self):
        try:
            # All of it, or the next request of the connection begins within it.
            length = self.headers.get("Content-Length")
            if length is None and self.command in ("PUT", "POST"):
                self.close_connection = True
                raise Refusal(411, "MissingContentLength")
            body = self.rfile.read(int(length or 0))
            url = urlsplit(self.path)
            query = {
                name: values[0]
                for name, values in parse_qs(url.query, keep_blank_values=True).items()
            }
            bucket, _, key = url.path.lstrip("/").partition("/")
            if unquote(bucket) != self.server.bucket_name:
                raise Refusal(404, "NoSuchBucket")
            handle = getattr(self, f"{self.command.lower()}_{'object' if key else 'bucket'}", None)
            if handle is None:
                raise Refusal(405, "MethodNotAllowed")
            handle(unquote(key), query, body)
        except Refusal as refusal:
            text = f"<Error><Code>{refusal.code}</Code><Message>{refusal.code}</Message></Error>"
            self.answer_xml(text, status=refusal.status)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request

    @property
    def condition(self):
        return self.headers.get("x-goog-if-generation-match")

    def put_object(self, key, query, body):
        if "uploadId" in query:
            number = int(query["partNumber"])
            etag = self.server.bucket.put_part(key, query["uploadId"], number, body)
            self.answer(200, {"ETag": etag})
        else:
            self.answer(200, self.server.bucket.create(key, body, self.condition).headers())

    def post_object(self, key, query, body):
        bucket = escape(self.server.bucket_name)
        if "uploads" in query:
            upload = self.server.bucket.begin(key)
            self.answer_xml(
                f"<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>"
                f"<UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            )
            return
        try:
            parts = [
                (int(part.findtext("PartNumber")), part.findtext("ETag"))
                for part in ElementTree.fromstring(body).iter("Part")
            ]
        except (ElementTree.ParseError, TypeError, ValueError):
            raise Refusal(400, "MalformedXML") from None
        upload = query.get("uploadId", "")
        stored = self.server.bucket.complete(key, upload, parts, self.condition)
        self.answer_xml(
            f"<CompleteMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>"
            f"<ETag>{escape(stored.etag)}</ETag></CompleteMultipartUploadResult>",
            stored.headers(),
        )

    def delete_object(self, key, query, _):
        if "uploadId" in query:
            self.server.bucket.abort(key, query["uploadId"])
        else:
            self.server.bucket.remove(key)
        self.answer(204)

    def head_object(self, key, _, __):
        stored = self.server.bucket.get(key)
        self.answer(200, stored.headers(), length=len(stored.body))

    def get_object(self, key, _, __):
        stored = self.server.bucket.get(key)
        unit, _, span = self.headers.get("Range", "").partition("=")
        if unit != "bytes":
            self.answer(200, stored.headers(), stored.body)
            return
        size = len(stored.body)
        first, _, last = span.partition("-")
        # Without a first byte the last number is how many bytes of the end are wanted.
        start = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        if start >= size:
            raise Refusal(416, "InvalidRange")
        headers = {**stored.headers(), "Content-Range": f"bytes {start}-{end - 1}/{size}"}
        self.answer(206, headers, stored.body[start:end])

    def get_bucket(self, _, query, __):
        if query.get("list-type") != "2":
            raise Refusal(400, "InvalidArgument")
        # A token is the last name of the page before.
        after = query.get("continuation-token") or query.get("start-after", "")
        count = int(query.get("max-keys", "1000"))
        found, has_more = self.server.bucket.page(query.get("prefix", ""), after, count)
        text = ["<ListBucketResult>", f"<Name>{escape(self.server.bucket_name)}</Name>"]
        text.append(f"<KeyCount>{len(found)}</KeyCount>")
        text.append(f"<IsTruncated>{str(has_more).lower()}</IsTruncated>")
        if has_more and found:
            token = escape(found[-1][0])
            text.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
        for key, stored in found:
            at = datetime.datetime.fromtimestamp(stored.time_s, datetime.timezone.utc)
            text.append(
                f"<Contents><Key>{escape(key)}</Key><Generation>{stored.generation}</Generation>"
                f"<LastModified>{at:%Y-%m-%dT%H:%M:%S.%fZ}</LastModified>"
                f"<ETag>{escape(stored.etag)}</ETag><Size>{len(stored.body)}</Size></Contents>"
            )
        self.answer_xml("".join([*text, "</ListBucketResult>"]))

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """The listener."""

    request_queue_size = 128


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("bucket")
    parser.add_argument("--page-size", type=int, default=1000)
    parser.add_argument("--contended", action="store_true")
    options = parser.parse_args()
    server = Server(("127.0.0.1", options.port), Handler)
    server.bucket_name = options.bucket
    server.bucket = Bucket(options.page_size, options.contended)
    server.serve_forever()


if __name__ == "__main__":
    main()
