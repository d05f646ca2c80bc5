"""What the tools print when a step fails: the words of the step are found, not those that close."""

import pytest

from marsmith.errors import ImageError
from marsmith.image.running import Log, run

BUILDAH = """STEP 1/3: FROM localhost/base
STEP 2/3: RUN apt-get install -y nosuch
Reading package lists...
E: Unable to locate package nosuch
error building at STEP "RUN apt-get install -y nosuch": error while running runtime: exit status 100
Finished
time="2026-01-01T00:00:00Z" level=error msg="exit status 100"
"""
PODMAN = """STEP 1/2: FROM localhost/base
STEP 2/2: RUN false-cmd
/bin/sh: 1: false-cmd: not found
Error: building at STEP "RUN false-cmd": while running runtime: exit status 127
"""
BUILDX = """#5 [1/3] FROM docker.io/library/debian
#5 DONE 0.1s
#6 [2/3] RUN pip install nosuch
#6 0.512 Looking in indexes: https://p.example/wheels
#6 1.204 ERROR: No matching distribution found for nosuch
#6 ERROR: process "/bin/sh -c pip install nosuch" did not complete successfully: exit code: 1
------
 > [2/3] RUN pip install nosuch:
1.204 ERROR: No matching distribution found for nosuch
------
Dockerfile:2
--------------------
   1 |     FROM docker.io/library/debian
   2 | >>> RUN pip install nosuch
--------------------
ERROR: failed to solve: process "/bin/sh -c pip install nosuch" did not complete successfully: exit code: 1
"""
NO_STEP = "Error: short-name resolution enforced but cannot prompt without a TTY\n"


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (BUILDAH, "E: Unable to locate package nosuch (in STEP 2/3: RUN apt-get install -y nosuch)"),
        (PODMAN, "/bin/sh: 1: false-cmd: not found (in STEP 2/2: RUN false-cmd)"),
        (BUILDX, "ERROR: No matching distribution found for nosuch (in #6 [2/3] RUN pip install nosuch)"),
        (NO_STEP, "Error: short-name resolution enforced but cannot prompt without a TTY"),
        ("", "it said nothing"),
    ],
)
def test_a_failure_is_told_in_the_words_of_its_step(text: str, failure: str) -> None:
    log = Log()
    for line in text.splitlines():
        log.add(line)
    assert log.failure() == failure


def test_steps_are_progress() -> None:
    steps: list[str] = []
    said = run(["/bin/sh", "-c", "echo 'STEP 1/2: FROM x'; echo words >&2; echo 'STEP 2/2: RUN y'"], "It", steps.append)
    assert steps == ["STEP 1/2: FROM x", "STEP 2/2: RUN y"]
    assert "words\n" in said


def test_a_failed_command_and_one_that_is_not_there_are_one_sentence() -> None:
    with pytest.raises(ImageError, match=r"^Building failed: no room\. Put that right and try again\.$"):
        run(["/bin/sh", "-c", "echo no room; exit 3"], "Building")
    with pytest.raises(ImageError, match="cannot be run"):
        run(["/no/such/tool"], "Building")


def test_an_interrupted_tool_is_ended() -> None:
    def interrupt(_step: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(["/bin/sh", "-c", "echo 'STEP 1/1: RUN x'; exec sleep 1000"], "It", interrupt)
