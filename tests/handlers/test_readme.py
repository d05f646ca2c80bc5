"""The README's example of a user's own handler is the code that runs here."""

import re
from pathlib import Path
from typing import Any

from tests.handlers.shouter import make_root
from tests.handlers.worker import Post, Worker

README = Path(__file__).parents[2] / "README.md"


def test_the_handler_in_the_readme_works_as_written(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (block for block in blocks if "class LengthHandler" in block)
    names: dict[str, Any] = {}
    exec(code, names)
    worker = Worker(names["LengthHandler"](), make_root(tmp_path))
    first, empty, several = worker.predict(Post.json({"text": "four"}), Post.json(""), Post.json(["a", 3]))
    assert first.value == {"characters": 4}
    assert empty.status == 422
    assert several.value[0] == {"characters": 1}
    assert several.value[1]["error"]["code"] == 422
