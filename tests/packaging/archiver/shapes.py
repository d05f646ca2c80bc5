"""Command lines of the kinds that users of torch-model-archiver write, which must be packed."""

from tests.packaging.archiver.shape import (
    BODY,
    KNOWN,
    SAFETENSORS,
    UNPACKS,
    WITH_ZIP,
    Shape,
    inside,
    maybe,
    packed,
    required,
)

SHAPES: dict[str, Shape] = {
    # A requirement whose module has another name than its package, or comes with a dependency of it.
    "module of another name": required("acme-toolkit==1.0\n", "import acmelib"),
    "two requirements, one of them known": required("numpy==2.0.0\nacme-toolkit==1.0\n", "from acmelib import tool"),
    "extras": required("acme_toolkit[gpu]>=1\n", "import acmelib.gpu"),
    "by URL": required("acme-toolkit @ https://example.org/acme.whl\n", "import acmelib"),
    "from version control": required("git+https://example.org/acme.git\n", "import acmelib"),
    "a file of requirements in another": Shape(
        {"handler.py": f"import acmelib{BODY}", "requirements.txt": "-r more.txt\n", "more.txt": "acme==1.0\n"},
        (*KNOWN, "--extra-files", "more.txt"),
        {"The import of acmelib": "M111"},
    ),
    "an index of one's own": required("--extra-index-url https://example.org/index\nacme-toolkit\n", "import acmelib"),
    "the module of the package's own name": Shape(
        {"handler.py": f"import acme_toolkit.inner{BODY}", "requirements.txt": "acme-toolkit==1.0\n"},
        KNOWN,
        silent=("acme_toolkit",),
    ),
    # What need not run.
    "branch of a method": maybe(inside("        if os.environ.get('FAST'):\n            import acmelib\n")),
    "else of a method": maybe(
        inside("        if os.environ.get('FAST'):\n            pass\n        else:\n            import acmelib\n")
    ),
    "elif of a method": maybe(
        inside("        if context:\n            pass\n        elif self:\n            from acmelib import fast\n")
    ),
    "after a return": maybe(inside("        if not context:\n            return\n        import acmelib\n")),
    "loop": maybe(inside("        for _ in range(context.times):\n            import acmelib\n")),
    "while": maybe(inside("        while not self.ready():\n            import acmelib\n")),
    "match": maybe(inside("        match context.kind:\n            case 'fast':\n                import acmelib\n")),
    "helper method": maybe(inside("        pass\n\n    def _fast(self):\n        import acmelib\n")),
    "helper function": maybe(f"def _fast():\n    import acmelib{BODY}"),
    "nested function": maybe(inside("        def later():\n            import acmelib\n        self.later = later\n")),
    "except of another error": maybe(
        inside("        try:\n            self.go()\n        except ValueError:\n            import acmelib\n")
    ),
    "branch of a module": maybe(f"import os\nif os.environ.get('FAST'):\n    import acmelib{BODY}"),
    "else of a module": maybe(f"import os\nif os.environ.get('SLOW'):\n    pass\nelse:\n    import acmelib{BODY}"),
    "conditional expression": maybe(
        f"import importlib\nimport os\ntool = importlib.import_module('acmelib') if os.environ.get('F') else None{BODY}"
    ),
    "a file that nobody imports": Shape(
        {"handler.py": BODY, "requirements.txt": "numpy==2.0.0\n", "tools.py": "import acmelib\n"},
        (*KNOWN, "--extra-files", "tools.py"),
        {"The import of acmelib": "M111"},
    ),
    "a file that a branch imports": Shape(
        {
            "handler.py": inside("        if context:\n            import tools\n"),
            "requirements.txt": "numpy==2.0.0\n",
            "tools.py": "import acmelib\n",
        },
        (*KNOWN, "--extra-files", "tools.py"),
        {"The import of acmelib": "M111"},
    ),
    "what is expected to fail": Shape(
        {
            "handler.py": f"try:\n    import acmelib\nexcept ImportError:\n    acmelib = None{BODY}",
            "requirements.txt": "numpy==2.0.0\n",
        },
        KNOWN,
        silent=("acmelib",),
    ),
    "for a type checker": Shape(
        {
            "handler.py": f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import acmelib{BODY}",
            "requirements.txt": "numpy==2.0.0\n",
        },
        KNOWN,
        silent=("acmelib",),
    ),
    "as the main program": Shape(
        {
            "handler.py": f"{BODY}\n\nif '__main__' == __name__:\n    import acmelib\n",
            "requirements.txt": "numpy==2.0.0\n",
        },
        KNOWN,
        silent=("acmelib",),
    ),
    # What a packed file brings.
    "package in a zip": Shape(
        {"handler.py": UNPACKS, "requirements.txt": "numpy==2.0.0\n", "code.zip": packed("acmelib/inner.py")},
        WITH_ZIP,
        {"The import of acmelib does not resolve. code.zip has it": "M111"},
    ),
    "deep in a zip": Shape(
        {
            "handler.py": UNPACKS,
            "requirements.txt": "numpy==2.0.0\n",
            "code.zip": packed("acme-main/src/acmelib/inner.py"),
        },
        WITH_ZIP,
        {"code.zip has it": "M111"},
    ),
    "module in a zip": Shape(
        {"handler.py": f"import acmelib{BODY}", "requirements.txt": "numpy\n", "code.zip": packed("acmelib.py")},
        WITH_ZIP,
        {"code.zip has it": "M111"},
    ),
    "wheel": Shape(
        {
            "handler.py": f"import acmelib{BODY}",
            "requirements.txt": "numpy\n",
            "acme-1.0-py3-none-any.whl": packed("acmelib/__init__.py"),
        },
        (*KNOWN, "--extra-files", "*.whl"),
        {"acme-1.0-py3-none-any.whl has it": "M111"},
    ),
    "tar file": Shape(
        {"handler.py": f"import acmelib{BODY}", "requirements.txt": "numpy\n", "acme.tar.gz": b"\x1f\x8b not read"},
        (*KNOWN, "--extra-files", "acme.tar.gz"),
        {"acme.tar.gz may bring it": "M111"},
    ),
    # What the handler sees to itself.
    "the path is changed": Shape(
        {
            "handler.py": f"import sys\nsys.path.append('/opt/acme')\nimport acmelib{BODY}",
            "requirements.txt": "numpy\n",
        },
        KNOWN,
        {"The code changes sys.path": "M111"},
    ),
    "pip is run": Shape(
        {
            "handler.py": (
                "import subprocess\nimport sys\n"
                "subprocess.check_call([sys.executable, '-m', 'pip', 'install', 'acme'])\n"
                f"import acmelib{BODY}"
            ),
            "requirements.txt": "numpy\n",
        },
        KNOWN,
        {"The code seems to install packages itself": "M111"},
    ),
    # What the server has, and nothing says so.
    "no requirements": Shape(
        {"handler.py": f"import acmelib\nfrom acmetools.inner import tool{BODY}"},
        warned={
            "The import of acmelib does not resolve. No requirements say": "M111",
            "The import of acmetools does not resolve. No requirements say": "M111",
        },
    ),
    "assumed module": Shape(
        {"handler.py": f"import acmelib{BODY}", "requirements.txt": "numpy\n"},
        (*KNOWN, "--assume", "acmelib"),
        silent=("acmelib",),
    ),
    "assumed package of another name": Shape(
        {"handler.py": f"import acmelib{BODY}", "requirements.txt": "numpy\n"},
        (*KNOWN, "--assume", "acme-toolkit"),
        {"It may come with acme-toolkit": "M111"},
    ),
    "assumed package of the module's name": Shape(
        {"handler.py": f"import acme_lib.inner{BODY}", "requirements.txt": "numpy\n"},
        (*KNOWN, "--assume", "Acme.Lib"),
        silent=("acme_lib",),
    ),
    "lint overruled": Shape(
        {"handler.py": f"import acmelib{BODY}", "requirements.txt": "numpy\n"},
        (*KNOWN, "--lint", "warn"),
        {"The import of acmelib does not resolve.": "M107"},
    ),
    # What only some servers have.
    "torchvision and torchaudio": Shape(
        {"handler.py": f"import torchvision.transforms\nfrom torchaudio import load{BODY}"},
        warned={"Not every server has torchvision.": "M113", "Not every server has torchaudio.": "M113"},
    ),
    "captum in a method": Shape(
        {
            "handler.py": inside(
                "        from captum.attr import IntegratedGradients\n        self.kind = IntegratedGradients\n"
            )
        },
        warned={"Not every server has captum.": "M113"},
    ),
    "a stock handler": Shape(
        {"model.onnx": b"\x08\x07 an ONNX network"},
        ("--handler", "image_classifier", "--serialized-file", "model.onnx"),
        {
            "Not every server has captum. The handler image_classifier imports it.": "M113",
            "Not every server has torchvision. The handler image_classifier imports it.": "M113",
        },
    ),
    "a subclass of a stock handler": Shape(
        {
            "handler.py": (
                "from ts.torch_handler.object_detector import ObjectDetector\n\n\n"
                "class Mine(ObjectDetector):\n    pass\n"
            ),
            "model.onnx": b"\x08\x07 an ONNX network",
        },
        ("--handler", "handler", "--serialized-file", "model.onnx"),
        {"Not every server has torchvision. ts.torch_handler.object_detector imports it.": "M113"},
    ),
    "torchvision that is assumed": Shape(
        {"handler.py": f"import torchvision{BODY}"},
        ("--handler", "handler.py", "--assume", "torchvision"),
        silent=("torchvision",),
    ),
    "what every server has": Shape(
        {"handler.py": f"import numpy, requests, psutil, yaml, torch\nfrom PIL import Image{BODY}"}, silent=("M11",)
    ),
    # Spellings of the command line.
    "abbreviated flags": Shape(
        {"handler.py": BODY, "a.txt": "a", "model.safetensors": SAFETENSORS},
        ("--hand", "handler.py", "--extra", "a.txt", "--ser=model.safetensors", "--f"),
    ),
    "function of a handler without its ending": Shape({"handler.py": BODY}, ("--handler", "handler:handle")),
    "a file by a path": Shape({"code/handler.py": BODY}, ("--handler", "./code/handler")),
    "a directory with a network": Shape(
        {"handler.py": BODY, "model/config.json": "{}", "model/model.safetensors": SAFETENSORS},
        ("--handler", "handler.py", "--extra-files", "model", "--archive-format", "no-archive"),
    ),
}
