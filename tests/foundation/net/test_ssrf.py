"""The SSRF corpus through the real client: what it names is blocked, and only that."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.foundation.net.ssrf import judge

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "corpora/ssrf_urls.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_url_is_judged_as_the_corpus_says(case: Mapping[str, Any]) -> None:
    right = case.get("accept", [case["expected"]]) + (["pinned"] if case.get("pinned") else [])
    assert judge(case) in right, case["why"]
