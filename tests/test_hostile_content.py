"""Nothing that a model, a tool or a file says does anything in a real JupyterLab, wherever it is shown."""

from __future__ import annotations

import pytest
from hostile_fields import PAYLOADS, numbered
from hostile_page import hostile_page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of JupyterLab that notices everything."""
    with hostile_page(tmp_path_factory.mktemp("lab")) as page:
        yield page


FIRST = {kind: text for kind, text in reversed(PAYLOADS)}


class TestHarness:
    @pytest.mark.parametrize("kind", FIRST)
    def test_notices_what_is_obeyed(self, page, kind):
        """Each kind of payload does something where it is obeyed, and that is noticed."""
        media_type = "text/markdown" if "Markdown" in kind else "text/html"
        findings = page.look([(media_type, numbered(FIRST[kind], 1234567))], is_obeyed=True)
        print(kind, findings.deeds, findings.suspects)
        assert findings.deeds

    def test_try_all(self, page):
        for kind, text in PAYLOADS[150:]:
            media_type = "text/markdown" if "Markdown" in kind else "text/html"
            findings = page.look([(media_type, numbered(text, 1234567))], is_obeyed=True)
            if not findings.deeds: print("UNNOTICED", kind, ascii(text), len(findings.suspects))
