"""The HTML page of all claims: one file, without external resources."""

from collections.abc import Sequence
from pathlib import Path

from experiments.claim import Claim, Finding
from heed.report.pages import render_page

TEMPLATES = Path(__file__).with_name("templates")


def render(findings: Sequence[tuple[Claim, Finding]], *, facts: Sequence[str]) -> str:
    """Return the page.

    Args:
        facts: notes on the measurement, for the footer.
    """
    held = sum(finding.held for _, finding in findings)
    title = f"{held} of {len(findings)} claims about attention held" if len(findings) > 1 else findings[0][0].claim
    return render_page("claims.html.j2", folder=TEMPLATES, title=title, findings=findings, facts=facts)
