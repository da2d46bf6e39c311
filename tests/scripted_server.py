"""A server on this machine that answers chat requests by a script, for tests of judges."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What the server sends: a status, an answer (or a body as it stands), after a wait."""

    answer: str = ""
    status: int = 200
    body: bytes | None = None
    wait_seconds: float = 0.0

    def content(self) -> bytes:
        """The bytes of the reply."""
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        reply = {"choices": [{"message": {"role": "assistant", "content": self.answer}}], "usage": usage}
        return json.dumps(reply).encode() if self.body is None else self.body


@dataclass
class Server:
    """The endpoint, and the requests that came: prompt and headers."""

    endpoint: str
    prompts: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def serving(script: Callable[[str, int], Reply]) -> Iterator[Server]:
    """A server that gives `script(prompt, how often this prompt came before)`."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == "/v1/chat/completions" and given["temperature"] == 0
            prompt = given["messages"][0]["content"]
            with lock:
                before = found.prompts.count(prompt)
                found.prompts.append(prompt)
                found.headers.append(dict(self.headers))
            reply = script(prompt, before)
            time.sleep(reply.wait_seconds)
            try:
                self.send_response(reply.status)
                self.end_headers()
                self.wfile.write(reply.content())
            except OSError:
                pass  # the asker did not wait

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Server(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
