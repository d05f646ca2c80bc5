"""The start command of SageMaker's PyTorch containers, kept to the loopback interface and to a directory of the test's.

Arguments: where TorchServe's configuration goes, and the first of four ports. All else is the toolkit's own.
"""

import sys
import types
from importlib import import_module
from pathlib import Path

import psutil

config, first = Path(sys.argv[1]), int(sys.argv[2])

# The toolkit finds its files by this module, which setuptools no longer has.
resources = types.ModuleType("pkg_resources")
vars(resources)["resource_filename"] = lambda package, name: str(
    Path(str(import_module(package).__file__)).parent / name.lstrip("/")
)
sys.modules["pkg_resources"] = resources

from sagemaker_inference import model_server  # noqa: E402
from sagemaker_pytorch_serving_container import handler_service, torchserve  # noqa: E402

properties = torchserve._generate_ts_config_properties


def on_loopback(handler: str) -> str:
    text = str(properties(handler)).replace("0.0.0.0", "127.0.0.1")
    ports = {"metrics_address": f"http://127.0.0.1:{first + 1}"}
    ports |= {f"grpc_{name}_port": str(first + 2 + place) for place, name in enumerate(("inference", "management"))}
    return text + "".join(f"\n{name}={port}" for name, port in ports.items()) + "\n"


def this_server() -> psutil.Process:
    """The toolkit takes any TorchServe of the machine for its own."""
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if torchserve.TS_NAMESPACE in command and str(config) in command:
            return process
    raise RuntimeError("no TorchServe yet")


torchserve.TS_CONFIG_FILE = str(config)
torchserve._generate_ts_config_properties = on_loopback
torchserve._retrieve_ts_server_process = torchserve.retry(stop_max_delay=60_000, wait_fixed=500)(this_server)
# They are installed, and a test asks no package index.
model_server._install_requirements = lambda: None
torchserve.start_torchserve(handler_service=handler_service.__file__)
