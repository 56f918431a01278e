"""An application served from a thread of the test, for a browser to visit."""

import threading
from contextlib import contextmanager

from werkzeug.serving import make_server
from werkzeug.wrappers import Response


@contextmanager
def served(app):
    """Yield the address of ``app`` on a free port, without a slash at the end.

    Each answer is read whole before its first byte is sent. Werkzeug's server closes no
    answer that a browser stops reading, and the file behind it would stay open.
    """

    def whole_answers(environ, start_response):
        answer = Response.from_app(app, environ, buffered=True)
        return answer(environ, start_response)

    server = make_server("127.0.0.1", 0, whole_answers, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
