"""Tools of the names docker, podman and buildah that build nothing: they record what they are asked."""

import json
import sys
from pathlib import Path

SCRIPT = """#!{python}
import json, os, shutil, sys
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
with open({record!r}, "a") as stream:
    stream.write(json.dumps([name, *arguments]) + "\\n")
verb = next((one for one in arguments if one in {answers!r}), "")
answer = {answers!r}.get(verb, {{}})
sys.stdout.write(answer.get("says", ""))
for one in arguments:
    for part in one.split(","):
        for before in ("oci-archive:", "docker-archive:", "dest="):
            if part.startswith(before) and {image!r} and not answer.get("code"):
                shutil.copyfile({image!r}, part[len(before):].split(":")[0])
    if arguments[:1] == ["save"] and one.endswith(".tar"):
        shutil.copyfile({image!r}, one)
if answer.get("keep") and verb == "build":
    shutil.copytree(arguments[-1], answer["keep"])
sys.exit(answer.get("code", 0))
"""


class FakeTools:
    """A directory for PATH; `answers` maps a verb to what it says, its exit code, and where it keeps the context."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = directory / "record"
        self.answers: dict[str, dict[str, object]] = {}
        self.image = ""

    def add(self, *names: str) -> None:
        for name in names:
            script = self.directory / name
            text = SCRIPT.format(python=sys.executable, record=str(self.record), answers=self.answers, image=self.image)
            script.write_text(text)
            script.chmod(0o755)

    def asked(self) -> list[list[str]]:
        """The command lines so far: the tool's name, then its arguments."""
        if not self.record.exists():
            return []
        return [json.loads(line) for line in self.record.read_text().splitlines()]
