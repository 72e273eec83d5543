"""The HTML page of all claims: one file, without external resources."""

from collections.abc import Sequence
from html import escape

from experiments.claim import Claim, Finding
from heed.report.style import STYLE

OWN_STYLE = """
.contents { list-style: none; padding: 0; margin: 18px 0 0; }
.contents li { display: flex; gap: 12px; padding: 5px 0; border-bottom: 1px solid var(--rule); }
.contents a { color: inherit; text-decoration: none; } .contents a:hover { text-decoration: underline; }
.verdict-mark { flex: none; width: 7.2em; font-size: 14px; font-weight: 600; }
.held { color: var(--c2); } .failed { color: var(--c1); }
section h2 .verdict-mark { font: 600 14px system-ui, sans-serif; margin-right: 10px; width: auto; }
.summary { font-size: 17px; color: var(--ink); margin: 10px 0 6px; max-width: 70ch; }
section > p.how { font-size: 14px; max-width: 80ch; }
.axis { font-size: 12px; color: var(--soft); margin: 18px 0 2px; }
.lines, .bars { margin-top: 4px; }
.lines .curve, .bars .curve { stroke: var(--own); stroke-width: 2; fill: none; stroke-linejoin: round; }
.lines .leader { stroke: var(--own); stroke-width: .8; opacity: .5; fill: none; }
.lines .name, .bars .name { fill: var(--own); font-weight: 600; }
.bars rect { fill: var(--own); opacity: .75; }
.plot g.label text { fill: var(--ink); }
"""


def render(findings: Sequence[tuple[Claim, Finding]], *, facts: Sequence[str]) -> str:
    """Return the page.

    Args:
        facts: notes on the measurement, for the footer.
    """
    held = sum(finding.held for _, finding in findings)
    title = f"{held} of {len(findings)} claims about attention held" if len(findings) > 1 else findings[0][0].claim
    entries = "".join(
        f'<li>{_mark(finding)}<a href="#{claim.name}">{escape(claim.claim)}</a></li>' for claim, finding in findings
    )
    contents = f'<ul class="contents">{entries}</ul>' if len(findings) > 1 else ""
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        '<link rel="icon" href="data:,">'
        f"<style>{STYLE}{OWN_STYLE}</style></head><body><main>"
        f'<header><p class="kicker">heed · claims about attention, measured</p><h1>{escape(title)}</h1>'
        f"{contents}</header>"
        + "".join(_section(claim, finding) for claim, finding in findings)
        + "<footer>"
        + "".join(f"<p>{escape(fact)}</p>" for fact in facts)
        + "</footer></main></body></html>\n"
    )


def _section(claim: Claim, finding: Finding) -> str:
    return (
        f'<section id="{claim.name}"><h2>{escape(claim.claim)}</h2>'
        f'<p class="summary">{_mark(finding)} {escape(finding.summary)}</p>'
        f'<p class="how">{escape(claim.measurement)}</p>' + "".join(finding.figures) + "</section>"
    )


def _mark(finding: Finding) -> str:
    kind, text = ("held", "held") if finding.held else ("failed", "did not hold")
    return f'<span class="verdict-mark {kind}">{text}</span>'
