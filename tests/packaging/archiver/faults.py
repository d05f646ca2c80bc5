"""Command lines that pack what surely fails where it is served, which must be refused."""

from tests.packaging.archiver.shape import BODY, KNOWN, WITH_ZIP, Fault, inside, packed

FAULTS: dict[str, Fault] = {
    "what is not required": Fault(
        {"handler.py": f"import acmelib{BODY}", "requirements.txt": "numpy==2.0.0\n"}, "M107", "acmelib", KNOWN
    ),
    "when the handler is made": Fault(
        {"handler.py": inside("        import acmelib\n"), "requirements.txt": "numpy\n"}, "M107", "acmelib", KNOWN
    ),
    "at a request": Fault(
        {"handler.py": "def handle(data, context):\n    import acmelib\n", "requirements.txt": "\n"},
        "M107",
        "acmelib",
        KNOWN,
    ),
    "in a block that surely runs": Fault(
        {"handler.py": f"import os\nwith open(os.devnull):\n    import acmelib{BODY}", "requirements.txt": "numpy\n"},
        "M107",
        "acmelib",
        KNOWN,
    ),
    "in what the handler imports": Fault(
        {"handler.py": f"import tools{BODY}", "tools.py": "import acmelib\n", "requirements.txt": "numpy\n"},
        "M107",
        "tools.py:1",
        (*KNOWN, "--extra-files", "tools.py"),
    ),
    "a module beside the handler that was left out": Fault(
        {"handler.py": f"from helper import tool{BODY}", "helper.py": "tool = 1\n"},
        "M107",
        "helper.py was not packed: name it in --extra-files",
    ),
    "a package beside the handler that was left out": Fault(
        {"code/handler.py": f"import library.inner{BODY}", "code/library/__init__.py": "", "code/library/inner.py": ""},
        "M107",
        "library was not packed",
        ("--handler", "code/handler.py"),
    ),
    "left out beside unknown requirements": Fault(
        {"handler.py": f"import helper{BODY}", "helper.py": "", "requirements.txt": "acme-toolkit\n"},
        "M107",
        "helper.py was not packed",
        KNOWN,
    ),
    "a name that a packed module does not have": Fault(
        {"handler.py": f"from helper import absent{BODY}", "helper.py": "tool = 1\n"},
        "M107",
        "absent from helper",
        ("--handler", "handler.py", "--extra-files", "helper.py"),
    ),
    "a module that a packed package does not have": Fault(
        {"handler.py": f"import library.absent{BODY}", "library/library/__init__.py": ""},
        "M107",
        "library.absent",
        ("--handler", "handler.py", "--extra-files", "library"),
    ),
    "a relative import": Fault(
        {"handler.py": f"from .helper import tool{BODY}", "helper.py": "tool = 1\n"}, "M107", ".helper"
    ),
    "a zip that has other modules": Fault(
        {
            "handler.py": f"import acmelib{BODY}",
            "requirements.txt": "numpy\n",
            "code.zip": packed("other.py", "acmelib.txt"),
        },
        "M107",
        "acmelib",
        WITH_ZIP,
    ),
    "something else assumed": Fault(
        {"handler.py": f"import acmelib, acmetools{BODY}", "requirements.txt": "numpy\n"},
        "M107",
        "acmelib",
        (*KNOWN, "--assume", "acmetools"),
    ),
    "torch in the requirements": Fault(
        {"handler.py": BODY, "requirements.txt": "torch==2.4.0\n"},
        "M304",
        "no TorchServe starts a worker without it",
        KNOWN,
    ),
    "torchaudio in the requirements": Fault(
        {"handler.py": BODY, "requirements.txt": "torchaudio\n"}, "M304", "not every server has it", KNOWN
    ),
    "the archiver in the requirements": Fault(
        {"handler.py": BODY, "requirements.txt": "torch-model-archiver\n"},
        "M304",
        "nothing that serves an archive",
        KNOWN,
    ),
}
