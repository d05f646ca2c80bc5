"""Where a server listens, and the configuration that it is started with."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
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
# What loads a tree that was built for SageMaker, whose manifest names no handler (targets/sagemaker.py): its own file,
# since a worker starts in the tree.
SAGEMAKER_HANDLER = "code/inference.py:handle"


@dataclass(frozen=True, slots=True)
class Ports:
    """The five TCP ports of a server, from `first` on, and the address on which predictions may be asked for.

    With `models_too` models are managed on the port and the address of predictions, as SageMaker does.
    """

    first: int = 8080
    inference_host: str = HOST
    models_too: bool = False

    @property
    def url(self) -> str:
        """Where predictions are asked for."""
        return f"http://{HOST}:{self.first}"

    @property
    def management_url(self) -> str:
        """Where models are described."""
        return self.url if self.models_too else f"http://{HOST}:{self.first + 1}"

    def properties(self) -> dict[str, str]:
        """The lines of config.properties that name them."""
        predictions = f"http://{self.inference_host}:{self.first}"
        return {
            "inference_address": predictions,
            "management_address": predictions if self.models_too else self.management_url,
            **({"enable_model_api": "true"} if self.models_too else {}),
            "metrics_address": f"http://{HOST}:{self.first + 2}",
            "grpc_inference_port": str(self.first + 3),
            "grpc_management_port": str(self.first + 4),
        }

    def listened_on(self) -> set[int]:
        """The ports that a server listens on; no port of its own for models where they share that of predictions."""
        return set(range(self.first, self.first + 5)) - ({self.first + 1} if self.models_too else set())

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


def effective_config(ports: Ports, *, token: bool, models: Mapping[str, object] | None = None) -> str:
    """config.properties with these ports, this choice of tokens and the metrics that Marsmith knows.

    `models` are the settings of trees that were built for SageMaker, in TorchServe's own form.
    """
    changes = ports.properties() | {
        "disable_token_authorization": str(not token).lower(),
        "metrics_config": str(METRICS),
    }
    if ports.models_too or models:
        changes["default_service_handler"] = SAGEMAKER_HANDLER
    if models:
        changes["models"] = json.dumps(models)
    lines = []
    for line in config_properties().read_text(encoding="utf-8").splitlines():
        key = line.partition("=")[0]
        lines.append(f"{key}={changes.pop(key)}" if key in changes else line)
    lines += [f"{key}={value}" for key, value in changes.items()]
    return "\n".join(lines) + "\n"
