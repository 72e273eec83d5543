"""The twelve claims: their statements from scripts/experiments, their figures from docs/results/claims.json."""

from experiments.claims import CLAIMS

from docs.figures import load, markdown_table, show


def markdown() -> str:
    """Return a table of all claims, and a section for each."""
    rows = load("claims")["rows"]
    summary = [
        [f"[`{claim.name}`](#{claim.name})", claim.claim, "yes" if rows[claim.name]["held"] else "**no**"]
        for claim in CLAIMS
    ]
    parts = [markdown_table(["claim", "statement", "held"], summary)]
    for claim in CLAIMS:
        row = rows[claim.name]
        figures = [[figure["what"], show(figure["value"])] for figure in row["figures"]]
        remark = [row["remark"]] if "remark" in row else []
        parts += [
            f"### {claim.name}",
            f"**{claim.claim}** Held: {'yes' if row['held'] else 'no'}.",
            *remark,
            claim.measurement,
            markdown_table(["measured", "value"], figures, [False, True]),
            f"```sh\npython scripts/experiments claims={claim.name}\n```",
        ]
    return "\n\n".join(parts)
