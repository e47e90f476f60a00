"""The playground's HTTP server, on the loopback address only, built on the standard library.

Other pages of the same browser are kept out: the ``Host`` header must name the loopback address (which stops DNS rebinding), an
``Origin`` header must be the page's own, requests must be ``application/json`` (a form cannot send that, and a script of
another origin needs a preflight, which is never granted), and no response has a CORS header. Requests are bounded: a length
before a body, :data:`MOST_BODY` bytes, :data:`TIMEOUT` seconds for each send or receive, :data:`MOST_CONNECTIONS` at once, and
the budgets of :mod:`cdplugin.playground.service`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from cdplugin.errors import CdpluginError
from cdplugin.playground.service import Playground, RequestError

MOST_BODY = 256 << 10
TIMEOUT = 20
MOST_CONNECTIONS = 16
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/playground.js": ("playground.js", "text/javascript; charset=utf-8"),
    "/playground.css": ("playground.css", "text/css; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """Serves a playground on the loopback address. ``port`` 0: any free port."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS
    allow_reuse_address = True

    def __init__(self, playground: Playground, port: int = 0) -> None:
        self.playground = playground
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(("127.0.0.1", port), Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}
        if self.server_port == 80:
            self.hosts |= {"127.0.0.1", "localhost"}

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection; answer 503 and close it if too many are open."""
        if not self._slots.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was started
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Run the connection on its thread, then free its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away; report everything else."""
        import sys

        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError, socket.timeout)):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Handles one connection."""

    protocol_version = "HTTP/1.1"
    server_version = "cdplugin"
    sys_version = ""
    timeout = TIMEOUT
    wbufsize = 1 << 16  # send head and body together: apart, the second waits 40 ms for the first one's acknowledgement
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """Serve the page's files and ``/api/info``."""
        if not self._is_ours():
            return
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # nobody reads the body
        path = self.path.partition("?")[0]
        if path == "/api/info":
            self._send_json(HTTPStatus.OK, self.server.playground.info())
        elif path in FILES:
            name, kind = FILES[path]
            self._send(HTTPStatus.OK, resources.files(__package__).joinpath("static").joinpath(name).read_bytes(), kind)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"path: expected one of {', '.join(FILES)}, /api/info")

    def do_POST(self) -> None:
        """Serve ``/api/step``, ``/api/why`` and ``/api/answer``."""
        if not self._is_ours():
            return
        answers: dict[str, Callable[[Any], dict[str, Any]]] = {
            "/api/step": self.server.playground.step,
            "/api/why": self.server.playground.why,
            "/api/answer": self.server.playground.answer,
        }
        answer = answers.get(self.path)
        if answer is None:
            self._refuse(HTTPStatus.NOT_FOUND, f"path: expected one of {', '.join(answers)}")
            return
        body = self._body()
        if body is None:
            return
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST, "body: expected JSON")
            return
        try:
            out = answer(request)
        except RequestError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except CdpluginError as error:
            self._refuse(HTTPStatus.CONFLICT, str(error))
        else:
            self._send_json(HTTPStatus.OK, out)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request that we know, with the headers of every answer."""
        status = HTTPStatus(code)
        self._refuse(status, message or status.phrase)

    def _is_ours(self) -> bool:
        """Whether the request comes from our own page or from a program on this machine; if not, it is refused here."""
        hosts = self.server.hosts
        host, origin, site = (self.headers.get(name) for name in ("Host", "Origin", "Sec-Fetch-Site"))
        if len(self.headers.get_all("Host", [])) != 1 or host not in hosts:
            self._refuse(HTTPStatus.FORBIDDEN, f"Host: expected one of {', '.join(sorted(hosts))}")
            return False
        if origin is not None and origin not in {f"http://{name}" for name in hosts}:
            self._refuse(HTTPStatus.FORBIDDEN, "Origin: expected the playground's own page")
            return False
        if site is not None and site not in ("same-origin", "none"):
            self._refuse(HTTPStatus.FORBIDDEN, "Sec-Fetch-Site: expected same-origin or none")
            return False
        return True

    def _body(self) -> bytes | None:
        """The request's body; None if the request was refused."""
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: expected application/json")
            return None
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdecimal() and len(length) < 10):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "Content-Length: expected a number of bytes")
            return None
        if int(length) > MOST_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"body: expected at most {MOST_BODY} bytes, found {length}")
            return None
        return self.rfile.read(int(length))

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self.close_connection = True  # a body that nobody reads may follow
        self._send_json(status, {"refused": message})

    def _send_json(self, status: HTTPStatus, value: dict[str, Any]) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: one request per keystroke is noise, and texts are private."""
