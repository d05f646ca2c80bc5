"""What lint can find: each kind has a code, a severity and a title; README.md holds the same table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from marsmith.errors import LintError
from marsmith.ground.untrusted import printable

Severity = Literal["error", "warning"]
# Of many errors, a refusal says the first ones; `marsmith lint` shows them all.
SHOWN_ERRORS = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding. An error fails at load or surprises in production; a warning may be meant."""

    severity: Severity
    title: str


def _error(title: str) -> Rule:
    return Rule("error", title)


def _warning(title: str) -> Rule:
    return Rule("warning", title)


# M0: manifest and names. M1: the handler's code. M2: model-config.yaml. M3: requirements. M4: members and files.
# M5: Marsmith's own files. M6: the recipe and its checkpoint.
RULES: dict[str, Rule] = {
    "M001": _error("`MAR-INF/MANIFEST.json` is missing, or is no JSON object that describes a model"),
    "M002": _error("the manifest names no model or no handler"),
    "M003": _error("the manifest's runtime is not one that TorchServe knows"),
    "M004": _error("the model's name cannot be routed"),
    "M005": _error("the model's version cannot be routed"),
    "M006": _error("a file that the manifest names is not in the archive"),
    "M101": _error("the handler's module is not in the archive"),
    "M102": _error("the handler's file name has a dot in it, so Python looks for a package"),
    "M103": _error("a Python file does not compile"),
    "M104": _error("the handler's module does not define the function that the manifest names"),
    "M105": _error("the handler's module has no single entry point: one function `handle`, or exactly one class"),
    "M106": _error("the entry point cannot be called the way TorchServe calls it"),
    "M107": _error("an import of what the worker loads does not resolve"),
    "M108": _error("a module hides one of the standard library or of an installed package"),
    "M109": _warning("a folder of modules without `__init__.py` has the name of a module that hides it"),
    "M110": _error("TorchServe's own loader finds no weights that it can load"),
    "M111": _warning("an import does not resolve here, but may never run, or may be on the server"),
    "M112": _warning("a metric of the handler's own, which TorchServe drops"),
    "M113": _warning("an import, or a handler of TorchServe, needs a package that not every server has"),
    "M201": _warning("there is no model-config.yaml, so TorchServe starts a worker for each core"),
    "M202": _error("a model-config.yaml lies in the archive, but the manifest does not name it"),
    "M203": _error("model-config.yaml is empty, no mapping of keys, or cannot be parsed"),
    "M204": _error("a key stands twice, and the last one wins"),
    "M205": _error("a key of TorchServe in a spelling that it ignores"),
    "M206": _warning("a key that TorchServe does not know"),
    "M207": _error("a value of a type that TorchServe ignores"),
    "M208": _error("a value outside the range that TorchServe takes"),
    "M209": _error("minWorkers and maxWorkers do not fit together, so TorchServe ignores both"),
    "M210": _warning("maxWorkers is above minWorkers, but TorchServe never scales by load"),
    "M211": _warning("a key is left to a default that differs by how the model is registered"),
    "M301": _error("a line of the requirements cannot be used"),
    "M302": _warning("a line of the requirements is an option, a URL or a path, which lint does not follow"),
    "M303": _warning("a requirement is not pinned to one version"),
    "M304": _error("the requirements bring another torch or torchserve, or what belongs on the server beside it"),
    "M305": _error("two requirements exclude each other"),
    "M306": _warning("a package stands twice in the requirements"),
    "M307": _warning("a requirements.txt lies in the archive, but the manifest does not name it"),
    "M308": _error("the package index has no such requirement for linux aarch64"),
    "M309": _warning("the package index was not asked"),
    "M401": _error("a name that no archive should hold"),
    "M402": _error("two members have the same name"),
    "M403": _error("a name is both a file and a folder"),
    "M404": _warning("names that differ only in case or in Unicode form"),
    "M405": _error("a secret"),
    "M406": _warning("a pickle, which can run code when it is loaded"),
    "M407": _warning("a leftover that no server needs"),
    "M408": _error("more members or bytes than `marsmith verify` accepts"),
    "M409": _warning("a text too large to be looked into"),
    "M410": _error("a member or file that cannot be read"),
    "M411": _error(
        "zip records or data that TorchServe's streaming reader cannot read, or that two readers could read differently"
    ),
    "M412": _error("a symbolic link leaves its directory"),
    "M413": _error("a Git LFS pointer, a server's error page or an empty file in the place of data"),
    "M501": _error("`model/serving.json` is missing or not valid"),
    "M502": _error("`model/serving.json` has no labels"),
    "M503": _error("an archive of Marsmith without `MAR-INF/digests.json`"),
    "M504": _warning("an archive of Marsmith without golden requests in `MAR-INF/golden.json`"),
    "M601": _error("the checkpoint cannot be built from"),
    "M602": _error("the checkpoint's weights are a pickle only, and the recipe does not allow that"),
    "M603": _warning("a pickle beside the checkpoint's safetensors"),
    "M604": _warning("a secret, or a link that leaves the checkpoint's directory, beside what is read of it"),
    "M605": _error("a file that the recipe names cannot be used"),
    "M606": _warning("the recipe has no samples, so only built-in probes test the archive"),
    "M607": _error("the handler needs a package that this machine has, but that the recipe does not require"),
    "M608": _error("the recipe requires another version of a package than the one that would be tested here"),
    "M609": _error("the recipe has no samples and its task no built-in probes, so nothing would test the archive"),
    "M610": _error("the recipe asks for explanations that its handler does not give"),
    "M611": _error("the checkpoint needs code of its own, or files that are not in its directory"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: `where` is a member, a key or a line; `message` says what is wrong, `remedy` what to do."""

    code: str
    where: str
    message: str
    remedy: str

    def __post_init__(self) -> None:
        for name in ("where", "message", "remedy"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    @property
    def severity(self) -> Severity:
        """The severity of its kind."""
        return RULES[self.code].severity


def refuse(findings: Iterable[Finding], what: str) -> None:
    """Raise LintError when one of the findings about `what` is an error."""
    errors = [one for one in findings if one.severity == "error"]
    if errors:
        listed = " ".join(f"{one.code} {one.where}: {one.message} {one.remedy}" for one in errors[:SHOWN_ERRORS])
        more = len(errors) - SHOWN_ERRORS
        raise LintError(f"{what} would not serve as it should. {listed}" + (f" And {more} more." if more > 0 else ""))


def rules_table() -> str:
    """All rules as the Markdown table of README.md."""
    rows = [f"| {code} | {rule.severity} | {rule.title} |" for code, rule in RULES.items()]
    return "\n".join(["| code | severity | finding |", "|--|--|--|", *rows]) + "\n"
