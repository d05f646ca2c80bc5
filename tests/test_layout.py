"""The rules of the house that no linter knows."""

import ast
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    file
    for folder in ("benchmarks", "handlers", "packaging", "tests", "training")
    for file in (ROOT / folder).rglob("*.py")
)
LONGEST_MODULE = 300


def imports(file: Path) -> set[str]:
    """The top-level packages that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def test_packaging_is_no_package() -> None:
    """A package of that name would shadow the one that torch and transformers import."""
    assert not (ROOT / "packaging/__init__.py").exists()
    import packaging.version

    assert not Path(packaging.version.__file__).is_relative_to(ROOT / "packaging")


def test_handlers_import_only_what_a_worker_has() -> None:
    own = {*sys.stdlib_module_names, "handlers"}
    allowed = {"numpy", "onnxruntime", "PIL", "pillow_heif", "tokenizers", "torch"}
    files = list((ROOT / "handlers").rglob("*.py"))
    assert files
    assert {file: names for file in files if (names := imports(file) - own - allowed)} == {}


def test_a_module_fits_on_a_few_screens() -> None:
    files = [file for file in MODULES if "tests" not in file.relative_to(ROOT).parts]
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert lengths
    assert {file: length for file, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_every_line_of_config_properties_is_explained() -> None:
    """A setting stands under a comment, alone or in a group with the setting before it."""
    lines = (ROOT / "config.properties").read_text(encoding="utf-8").splitlines()
    for before, line in pairwise(lines):
        if line and not line.startswith("#"):
            assert before, f"{line} has no reason above it"


def test_the_dependencies_are_all_pinned_in_the_constraints() -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for extra in extras.values() for line in extra)]
    pinned = {
        canonicalize_name(Requirement(line).name): Requirement(line).specifier
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    }
    for requirement in map(Requirement, wanted):
        if requirement.name == project["name"]:
            continue  # an extra that holds another
        (pin,) = pinned[canonicalize_name(requirement.name)]
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version)


def test_the_directions_between_folders_hold() -> None:
    """The contracts of pyproject.toml."""
    result = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


def test_only_the_folder_network_loads_torch() -> None:
    """Every other module is imported, and no network library comes with it."""
    package = ROOT / "packaging/marsmith"
    files = [file.relative_to(package.parent) for file in package.rglob("*.py")]
    own_programs = {"worker_site", "entries"}  # run elsewhere
    modules = [
        ".".join(file.with_suffix("").parts)
        for file in files
        if not {"network", "__main__.py", *own_programs} & set(file.parts)
    ]
    assert len(modules) > 100
    code = (
        "import sys, importlib\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(sorted({'torch', 'transformers', 'onnx', 'onnxruntime', 'ts'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_help_imports_nothing_heavy() -> None:
    heavy = {"torch", "transformers", "onnx", "requests", "pydantic"}
    code = f"import sys, marsmith.cli; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


# Calls of transformers that ask on the terminal whether to run a checkpoint's own code, unless they are told not to.
ASKING = {"from_pretrained", "from_config", "pipeline"}


def test_no_call_asks_whether_to_run_a_checkpoints_own_code() -> None:
    calls = [
        (file, call)
        for file in MODULES
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")) in ASKING
    ]
    assert {file.relative_to(ROOT).parts[0] for file, _ in calls} == {"benchmarks", "packaging", "tests", "training"}
    for file, call in calls:
        refused = [word.value for word in call.keywords if word.arg == "trust_remote_code"]
        assert [getattr(value, "value", None) for value in refused] == [False], f"{file}:{call.lineno}"


def test_one_module_of_marsmith_loads_what_transformers_saved() -> None:
    loading = [file.name for file in (ROOT / "packaging").rglob("*.py") if ".from_pretrained(" in file.read_text()]
    assert loading == ["pretrained.py"]
