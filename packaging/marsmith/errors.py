"""Everything that a user can put right. The text of each error says what is wrong and what to do.

MarsmithError
├── RecipeError       the recipe
├── CheckpointError   the checkpoint it names
├── ExportError       the network cannot be exported, or the export disagrees with the original
├── AccuracyError     a quantised network is further from the checkpoint than the recipe allows
├── ArchiveError      an archive cannot be written or read
├── LintError         an archive, or what is to become one, would not serve as it should
├── VerifyError       an archive is not what was built or signed
├── GoldenError       an archive answers its golden requests differently, or cannot be asked
├── SigningError      a key or a signature cannot be made or used
├── ServerError       TorchServe does not start, or a model does not become ready
├── ClientError       a server cannot be reached
├── ImageError        a container image cannot be built, read or run
├── ContainerError    a container cannot serve on this machine, or as its environment asks
├── TargetError       a target is not known, or cannot serve the model
├── TuneError         nothing can be tuned, or nothing can be recommended
└── DeployError       AWS cannot be asked, or cannot do what was asked
"""

from __future__ import annotations


class MarsmithError(Exception):
    """The base: the command line prints its text as one sentence and exits with code 1."""


class RecipeError(MarsmithError):
    """The recipe is missing, is not TOML, or says something that cannot be."""


class CheckpointError(MarsmithError):
    """The checkpoint is missing, incomplete, or not one for the recipe's task."""


class ExportError(MarsmithError):
    """The network cannot be written for an engine, or what was written answers differently."""


class AccuracyError(MarsmithError):
    """In the recipe's precision the network answers too differently from the checkpoint."""


class ArchiveError(MarsmithError):
    """An archive cannot be written, or is not one."""


class LintError(MarsmithError):
    """Lint found an error: what is packed would fail or surprise when TorchServe loads it."""


class VerifyError(MarsmithError):
    """An archive is damaged, was tampered with, or lacks the signature that was asked for."""


class GoldenError(MarsmithError):
    """The golden requests are not answered as the checkpoint answers them."""


class SigningError(MarsmithError):
    """A key cannot be made or read, or an archive cannot be signed."""


class ServerError(MarsmithError):
    """TorchServe cannot be started, or a model does not become ready."""


class ClientError(MarsmithError):
    """The server cannot be reached, or does not know the model."""


class ImageError(MarsmithError):
    """A container image cannot be built, is none, or does not run."""


class ContainerError(MarsmithError):
    """A container cannot serve on this machine, or as its environment asks."""


class TargetError(MarsmithError):
    """There is no such target, or it cannot serve this model."""


class TuneError(MarsmithError):
    """There is nothing to try on this machine, or nothing that was tried can be recommended."""


class DeployError(MarsmithError):
    """A deployment says something that cannot be, or AWS cannot be asked or cannot do it."""


def first_line(error: BaseException) -> str:
    """What another library's exception says, in one line without its full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def last_line(text: str) -> str:
    """The last line of a log that is not blank; empty where there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
