"""Every fault of TorchServe and its neighbours that the handlers are immune to has a test that names its report."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# By repository: faults that a handler can have. Those of packing and configuration are named beside their tests.
REPORTS = {
    "pytorch/serve": """
        65 410 415 730 821 849 911 934 943 967 982 1004 1010 1019 1120 1128 1138 1142 1225 1230 1267 1271 1302 1304
        1309 1316 1385 1394 1528 1782 1792 1839 1922 2023 2030 2068 2121 2155 2158 2162 2432 2453 2712 2853 3034
        3261
    """,
    "pytorch/vision": "2950",
    "kserve/kserve": "1889 3438 3450",
    "aws/sagemaker-python-sdk": "3341 4869",
    "aws/sagemaker-pytorch-inference-toolkit": "121",
    "awslabs/multi-model-server": "621",
    "gladiaio/gladia": "668",
    "microsoft/Biodiversity": "575",
    "mistralai/mistral-common": "330",
    "open-mmlab/mmocr": "1462",
    "sgl-project/sglang": "33464",
}


@pytest.fixture(scope="module")
def named() -> set[str]:
    """The reports that other test files name."""
    sources = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    return {name for source in sources for name in re.findall(r"[\w.-]+/[\w.-]+#\d+", source)}


@pytest.mark.parametrize("repository", REPORTS)
def test_every_report_is_named_by_a_test(repository: str, named: set[str]) -> None:
    assert {f"{repository}#{number}" for number in REPORTS[repository].split()} - named == set()
