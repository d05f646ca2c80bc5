"""A job for a network namespace, which says what it was given and how it ends."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from marsmith.errors import ImageError
from marsmith.ground.progress import Progress
from marsmith.image.namespace import Job, serve


@dataclass(frozen=True)
class Errand:
    """What was done: the files' names, and the network interfaces that the job saw."""

    names: tuple[str, ...]
    interfaces: list[str]
    seconds: float | None = None


class Errands(Job[Errand]):
    """Look at files, or end in one of the other ways."""

    files: list[Path]
    end: str = "answer"

    def run(self, progress: Progress) -> Errand:
        progress(f"looking at {len(self.files)} files")
        if self.end == "refuse":
            raise ImageError("The errand is refused.")
        if self.end == "network":
            raise OSError(1, "Operation not permitted")
        if self.end == "die":
            os._exit(3)
        return Errand(tuple(file.name for file in self.files), [name for _, name in socket.if_nameindex()])


if __name__ == "__main__":
    serve(Errands)
