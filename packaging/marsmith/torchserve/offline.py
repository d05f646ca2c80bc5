"""Run a Python script with its network cut off: `python -P offline.py SCRIPT ARGUMENTS…`.

An audit hook refuses every address that is not on this machine's file system, so that an archive which downloads
something at load fails here and not on a server without a network. It holds Python code honest, not hostile code.
"""

import runpy
import socket
import sys
from pathlib import Path

REFUSED = {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"}


def refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    """Raise OSError for an audit event that reaches beyond unix sockets."""
    if event in REFUSED and getattr(arguments[0], "family", None) != socket.AF_UNIX:
        raise OSError("the network is off while an archive is tested: pack what the handler wants to download")


def main() -> None:
    """Run the script as Python itself would."""
    script = sys.argv.pop(1)
    sys.argv[0] = script
    sys.path.insert(0, str(Path(script).parent))
    sys.addaudithook(refuse_network)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
