"""A server with the part of S3 that remotes use: objects with conditions, ranges, listings, deletions."""

from __future__ import annotations

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "agents"


class Storage(ThreadingHTTPServer):
    """Serves one bucket on loopback until it is closed."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self.objects: dict[str, bytes] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, prefix: str) -> str:
        port = self.server_address[1]
        return f"s3://{BUCKET}/{prefix}?region=test-1&endpoint=http://127.0.0.1:{port}"


def tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Storage

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, code: int, name: str) -> None:
        self.answer(code, f"<Error><Code>{name}</Code><Message/></Error>".encode())

    def place(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        path = unquote(parts.path).lstrip("/")
        return path.removeprefix(BUCKET).lstrip("/"), parse_qs(parts.query, keep_blank_values=True)

    def body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return body
        whole = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            length = int(size.split(b";")[0], 16)
            whole, body = whole + body[:length], body[length + 2 :] if length else b""
        return whole

    def do_GET(self) -> None:
        key, query = self.place()
        if not key:
            return self.list(query)
        content = self.server.objects.get(key)
        if content is None:
            return self.refuse(404, "NoSuchKey")
        if self.headers.get("If-None-Match") == tag(content):
            return self.answer(304, ETag=tag(content))
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        headers = {"ETag": tag(content), "Last_Modified": "Tue, 01 Dec 2026 00:00:00 GMT"}
        if found is None:
            return self.answer(200, content, **headers)
        start = int(found[1])
        end = min(int(found[2] or len(content)), len(content) - 1)
        if start >= len(content):
            return self.refuse(416, "InvalidRange")
        headers["Content_Range"] = f"bytes {start}-{end}/{len(content)}"
        self.answer(206, content[start : end + 1], **headers)

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        (key, _), body = self.place(), self.body()
        with self.server.lock:
            found = self.server.objects.get(key)
            wanted = self.headers.get("If-Match")
            if found is not None and self.headers.get("If-None-Match") == "*":
                return self.refuse(412, "PreconditionFailed")
            if wanted is not None and (found is None or wanted != tag(found)):
                return self.refuse(412, "PreconditionFailed")
            self.server.objects[key] = body
        self.answer(200, ETag=tag(body))

    def do_DELETE(self) -> None:
        with self.server.lock:
            self.server.objects.pop(self.place()[0], None)
        self.answer(204)

    def do_POST(self) -> None:
        names = re.findall(r"<Key>(.*?)</Key>", self.body().decode())
        with self.server.lock:
            for name in names:
                self.server.objects.pop(name, None)
        self.answer(200, b"<DeleteResult/>")

    def list(self, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        with self.server.lock:
            found = sorted((key, body) for key, body in self.server.objects.items())
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size>"
            f"<LastModified>2026-12-01T00:00:00.000Z</LastModified><ETag>{escape(tag(body))}</ETag></Contents>"
            for key, body in found
            if key.startswith(prefix)
        )
        self.answer(
            200,
            f"<ListBucketResult><Name>{BUCKET}</Name><IsTruncated>false</IsTruncated>{entries}"
            "</ListBucketResult>".encode(),
        )

    def log_message(self, format: str, *args: object) -> None:
        pass
