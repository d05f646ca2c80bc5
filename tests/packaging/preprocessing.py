"""Ask the handlers, in this process, what they prepare for a reference: what the build asks in one of its own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from handlers.prepare import prepare
from marsmith.ground.serving import ImageSettings, Options, Serving, TextSettings


def asking(
    directory: Path, settings: TextSettings | ImageSettings, files: Mapping[str, bytes] | None = None
) -> Callable[[Mapping[str, Sequence[str]]], list[Any]]:
    """What answers for an archive with these settings and files in its model/, which `directory` becomes."""
    directory.mkdir(exist_ok=True)
    section = {"text" if isinstance(settings, TextSettings) else "image": settings}
    serving = Serving(name="m", version="1.0", precision="fp32", labels=["a", "b"], options=Options(top_k=1), **section)
    for name, content in {"serving.json": serving.to_json(), **(files or {})}.items():
        (directory / name).write_bytes(content)
    return lambda inputs: prepare(directory, {key: list(values) for key, values in inputs.items()})
