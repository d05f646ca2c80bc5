"""Where a server listens, and the configuration that it is started with."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from marsmith.errors import ServerError
from marsmith.resources import config_properties

HOST = "127.0.0.1"
# For Java and for Python: members of archives may have any name, whatever the locale of who serves them.
UTF8 = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
OTHER_PORTS = "stop what listens there, or choose others with --port"
# Every metric of TorchServe and of the handlers.
METRICS = Path(__file__).with_name("metrics.yaml")


@dataclass(frozen=True, slots=True)
class Ports:
    """The five TCP ports of a server, from `first` on, and the address on which predictions may be asked for.

    With `model_api` models may be loaded and unloaded on the management port.
    """

    first: int = 8080
    inference_host: str = HOST
    model_api: bool = False

    @property
    def url(self) -> str:
        """Where predictions are asked for."""
        return f"http://{HOST}:{self.first}"

    @property
    def management_url(self) -> str:
        """Where models are described."""
        return f"http://{HOST}:{self.first + 1}"

    def properties(self) -> dict[str, str]:
        """The lines of config.properties that name them."""
        return {
            "inference_address": f"http://{self.inference_host}:{self.first}",
            "management_address": self.management_url,
            **({"enable_model_api": "true"} if self.model_api else {}),
            "metrics_address": f"http://{HOST}:{self.first + 2}",
            "grpc_inference_port": str(self.first + 3),
            "grpc_management_port": str(self.first + 4),
        }

    def listened_on(self) -> set[int]:
        """The ports that a server listens on."""
        return set(range(self.first, self.first + 5))

    def check_free(self) -> None:
        """Raise ServerError for the first port that something listens on."""
        for port in range(self.first, self.first + 5):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except (OSError, OverflowError) as error:
                    raise ServerError(f"Port {port} cannot be used ({error}): {OTHER_PORTS}.") from None

    def in_use(self) -> str:
        """Which port was taken after all by another process."""
        try:
            self.check_free()
        except ServerError as error:
            return str(error)
        return f"One of the ports {self.first} to {self.first + 4} was in use: {OTHER_PORTS}."


def effective_config(ports: Ports, *, token: bool) -> str:
    """config.properties with these ports, this choice of tokens and the metrics that Marsmith knows."""
    changes = ports.properties() | {
        "disable_token_authorization": str(not token).lower(),
        "metrics_config": str(METRICS),
    }
    lines = []
    for line in config_properties().read_text(encoding="utf-8").splitlines():
        key = line.partition("=")[0]
        lines.append(f"{key}={changes.pop(key)}" if key in changes else line)
    lines += [f"{key}={value}" for key, value in changes.items()]
    return "\n".join(lines) + "\n"
