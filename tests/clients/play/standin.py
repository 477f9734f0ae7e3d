"""A model server on loopback that answers from a script, and keeps what it was sent and what lay on disk."""

import gzip
import http.server
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from wire import DIALECTS, Answer

# What asks without tools asks for a title or a summary.
ASIDE = Answer("A short summary")
NOTHING_LEFT = Answer("Nothing to do.")


def listing(folder):
    """Every file below a folder by its path, with its text; the store itself is none of them."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not {".turntree", ".git"} & set(name.parts):
            found[str(name)] = path.read_bytes().decode("utf-8", "replace")
    return found


@dataclass
class Request:
    """A request of the conversation itself: what it said, the files at that moment, the answer to it."""

    path: str
    body: dict
    parts: list
    files: dict
    answer: Answer


@dataclass
class StandIn:
    """The server. `script` is what it still has to say, `requests` what it was asked since that was set,
    `noted` all that it was ever sent. Of several conversations at a time each has a script by its prompt in
    `scripts`, and begins it anew when it is asked anew."""

    folder: Path
    delay: float = 0.0
    script: list = field(default_factory=list)
    scripts: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)
    noted: list = field(default_factory=list)

    def __post_init__(self):
        self.lock = threading.Lock()
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.send_document({})

            def do_GET(self):
                self.send_document({"object": "list", "data": [], "models": []})

            def do_POST(self):
                answered = stand_in.take(self.path, self.read_body())
                try:
                    if isinstance(answered, list):
                        self.send_events(answered)
                    else:
                        self.send_document(answered)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # The client has gone; the request is noted all the same.

            def read_body(self):
                if self.headers.get("transfer-encoding", "").lower() == "chunked":
                    raw = b""
                    while size := int(self.rfile.readline().strip() or b"0", 16):
                        raw += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    raw = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.headers.get("content-encoding") == "gzip":
                    raw = gzip.decompress(raw)
                try:
                    return json.loads(raw)
                except ValueError:
                    return {}

            def send_document(self, document):
                raw = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(raw)

            def send_events(self, events):
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                for name, data in events:
                    written = data if isinstance(data, str) else json.dumps(data)
                    head = f"event: {name}\n" if name else ""
                    self.wfile.write(f"{head}data: {written}\n\n".encode())
                    self.wfile.flush()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, body):
        """Notes a request, and gives the answer as a document or as a list of events."""
        self.noted.append({"path": path, "body": body})
        dialect = next((dialect for dialect in DIALECTS if dialect.takes(path)), None)
        if dialect is None:
            return {"input_tokens": 10, "totalTokens": 10}
        if dialect.is_aside(body):
            return dialect.answer(ASIDE, body, path)
        parts = dialect.parts(body)
        with self.lock:
            answer = self.by_prompt(parts) or (self.script.pop(0) if self.script else NOTHING_LEFT)
            files = listing(self.folder)
            request = Request(path, body, parts, files, answer)
            self.requests.append(request)
        time.sleep(self.delay)
        return dialect.answer(answer, body, path)

    def by_prompt(self, parts):
        """The answer of the conversation whose prompt is in a request: the one after so many results."""
        for prompt, script in self.scripts.items():
            said = [at for at, (_, kind, value) in enumerate(parts) if kind == "text" and prompt in value]
            if said:
                done = sum(kind == "result" for _, kind, _ in parts[said[-1]:])
                return script[min(done, len(script) - 1)]
        return None

    def play(self, script):
        """Sets what to say next, and forgets the requests so far."""
        with self.lock:
            self.script, self.requests = list(script), []

    def close(self):
        self.server.shutdown()
        self.server.server_close()
