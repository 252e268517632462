"""The generated pages say what the code says."""

import pytest

from tests.app.reference_pages import FOLDER, pages


@pytest.mark.parametrize("name", pages())
def test_the_page_equals_what_the_code_generates(name: str) -> None:
    assert (FOLDER / name).read_text() == pages()[name], "run: python -m tests.app.reference_pages"
