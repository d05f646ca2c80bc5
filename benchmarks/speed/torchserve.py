"""Subjects that an unmodified TorchServe serves: only the archive differs."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import time
from abc import abstractmethod
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from benchmarks.speed.agreement import Answer
from benchmarks.speed.subjects import BenchmarkError, Subject
from marsmith.torchserve.configuration import HOST, Ports, effective_config
from marsmith.torchserve.java import java_home
from marsmith.torchserve.server import LOG_CONFIG

BASELINES = Path(__file__).with_name("baselines")
MODEL = "m"
VERSION = "1.0"
STARTUP_TIMEOUT_S = 300
RESPONSE_TIMEOUT_S = 300
# Seconds in which a second worker has to be ready.
SCALE_TIMEOUT_S = 300


class TorchServe(Subject):
    """A TorchServe with one archive, and the settings of Marsmith's config.properties for all.

    `pack` makes the archive; how long that takes is measured.
    """

    path = f"/predictions/{MODEL}"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.pack_s = 0.0

    @property
    def archive(self) -> Path:
        """The archive, in the directory that TorchServe reads."""
        return self.home / "store" / f"{MODEL}.mar"

    @abstractmethod
    def pack(self) -> None:
        """Write `archive`."""

    def prepare(self) -> None:
        """Pack the archive and write the configuration."""
        for directory in (self.archive.parent, self.home / "logs"):
            directory.mkdir(parents=True, exist_ok=True)
        begin = time.perf_counter()
        self.pack()
        self.pack_s = time.perf_counter() - begin
        config = effective_config(Ports(self.job.port), token=False)
        (self.home / "config.properties").write_text(config, encoding="utf-8")

    @cached_property
    def _tmp(self) -> Path:
        """Where TorchServe unpacks; its sockets lie there too, whose paths may have 107 bytes, wherever `home` is."""
        self._scratch = tempfile.TemporaryDirectory(prefix="marsmith-", ignore_cleanup_errors=True)
        return Path(self._scratch.name)

    def start(self, probe: bytes, workers: int = 1) -> float:
        """As any; what the server before unpacked, and its pid file, are gone."""
        shutil.rmtree(self._tmp, ignore_errors=True)
        self._tmp.mkdir()
        return super().start(probe, workers)

    def command(self, workers: int) -> list[str]:
        """TorchServe in the foreground; it starts with one worker always."""
        del workers
        command = [str(self.python), "-m", "ts.model_server", "--start", "--foreground", "--ncs"]
        command += ["--model-store", str(self.archive.parent), "--models", f"{MODEL}={MODEL}.mar"]
        return [*command, "--ts-config", str(self.home / "config.properties"), "--log-config", str(LOG_CONFIG)]

    def environment(self) -> dict[str, str]:
        """The common one, with TorchServe's directories inside `home`."""
        environ = super().environment()
        if home := java_home(environ):
            environ["JAVA_HOME"] = str(home)
        tmp, logs = str(self._tmp), str(self.home / "logs")
        own = {"TEMP": tmp, "TMPDIR": tmp, "LOG_LOCATION": logs, "METRICS_LOCATION": logs}
        return environ | own | {"MARSMITH_THREADS": str(self.job.threads)}

    def add_worker(self, probe: bytes) -> None:
        """Scale to two workers by the management API, and wait until both are ready."""
        del probe
        connection = http.client.HTTPConnection(HOST, self.job.port + 1, timeout=SCALE_TIMEOUT_S)
        connection.request("PUT", f"/models/{MODEL}?min_worker=2&max_worker=2&synchronous=true")
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
        connection.close()
        if response.status != HTTPStatus.OK:
            raise BenchmarkError(f"{self.name} does not scale to two workers: {text.strip()}")

    def worker_start_s(self) -> float | None:
        """When the worker's process began, in seconds since the epoch."""
        workers = [one for one in self.processes() if any("model_service_worker" in part for part in one.cmdline())]
        return min((one.create_time() for one in workers), default=None)


class StockArchive(TorchServe):
    """An archive of torch-model-archiver. `handler` lies in benchmarks/baselines, or is one of its own names."""

    handler: str
    archive_format = "default"
    batch_size: int | None = None

    def inputs(self) -> dict[str, str]:
        """The archiver's further arguments, without their dashes."""
        return {}

    def model_config(self) -> dict[str, object]:
        """model-config.yaml."""
        return {
            "minWorkers": 1,
            "maxWorkers": 1,
            "batchSize": self.batch_size or self.job.batch_size,
            "maxBatchDelay": self.job.delay_ms,
            "responseTimeout": RESPONSE_TIMEOUT_S,
            "startupTimeout": STARTUP_TIMEOUT_S,
        }

    def pack(self) -> None:
        """Call the stock archiver."""
        config = self.home / "model-config.yaml"
        config.write_text(yaml.safe_dump(self.model_config()), encoding="utf-8")
        arguments = {
            "model-name": MODEL,
            "version": VERSION,
            "handler": self.handler if self.handler == "image_classifier" else str(BASELINES / self.handler),
            "config-file": str(config),
            "export-path": str(self.archive.parent),
            "archive-format": self.archive_format,
            **self.inputs(),
        }
        command = [sys.executable, "-m", "model_archiver.model_packaging", "--force"]
        for name, value in arguments.items():
            command += [f"--{name}", value]
        result = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)  # noqa: S603
        if result.returncode:
            raise BenchmarkError(f"torch-model-archiver failed for {self.name}: {result.stderr.strip()[-300:]}")


class RawBody(StockArchive):
    """The input itself is the request, as `curl -T` sends it; the answer is JSON: scores by label, or a label alone."""

    def content_type(self) -> str:
        """None: the handler gets bytes."""
        return ""

    def body(self, data: bytes) -> bytes:
        """The input."""
        return data

    def answer(self, raw: str) -> Answer:
        """Scores by label, or only the label."""
        try:
            scores: Any = json.loads(raw)
        except ValueError:
            return Answer(raw.strip(), {})
        if isinstance(scores, str):
            return Answer(scores, {})
        return Answer(max(scores, key=scores.__getitem__), scores)
