"""A small archive with one golden request, and a program that answers it on the image's port until SIGTERM."""

import json
import sys
from pathlib import Path

from marsmith.mar.members import GOLDEN, MANIFEST
from marsmith.mar.writer import write_archive
from tests.packaging.forgery import members

SERVER = """
import json, signal, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"label": sys.argv[1]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = ThreadingHTTPServer(("127.0.0.1", 8080), Handler)
def stop(*_):
    if sys.argv[2] == "drain":
        threading.Thread(target=server.shutdown).start()
signal.signal(signal.SIGTERM, stop)
server.serve_forever()
"""
HEALTH = [sys.executable, "-c", "import socket; socket.create_connection(('127.0.0.1', 8080), 1).close()"]
# What runs a container's command on the machine itself: as buildah does in a chroot, but without one. As there, a
# process of buildah's own stands between, whose arguments end with the command too.
FAKE_BUILDAH = """#!{python}
import json, subprocess, sys
with open({record!r}, "a") as stream:
    stream.write(json.dumps(sys.argv[1:]) + "\\n")
if "from" in sys.argv:
    print("working-container")
elif "run" in sys.argv:
    code = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    inside = sys.argv[sys.argv.index("--") + 1:]
    between = subprocess.run(["buildah-chroot-exec", "-I", "-c", code, *inside], executable=sys.executable)
    sys.exit(between.returncode)
"""


def small_archive(path: Path, label: str = "good") -> Path:
    """An archive of a model `m` that expects that label."""
    request = {"name": "probe 1", "text": "ok", "expect": {"label": label}, "tolerance": 0.0001}
    files = {
        MANIFEST: b'{"runtime": "python", "model": {"modelName": "m", "handler": "m.py"}}',
        GOLDEN: json.dumps({"format": 1, "requests": [request]}).encode(),
        "m.py": b"def handle(data, context):\n    return data\n",
    }
    write_archive(path, members(files))
    return path
