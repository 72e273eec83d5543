"""docs/explainer.html: the explainer of a small model of the built-in corpus.

    heed train folder=runs/small model.d_model=64 model.d_ff=256 model.encoder_layers=2 model.decoder_layers=2
    cut -f 2 scripts/headline.tsv | tail -n +2 > examples.txt
    heed export runs/small --to page --check examples.txt --out docs/explainer.html

The model in the file stays. The page around it is written anew, so that it is always the page of this version.
"""

import json
import re
from pathlib import Path

import heed
from heed.report.pages import render_template

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explainer.html"


def page() -> str:
    """Return the page with its model and the present template."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', PAGE.read_text(encoding="utf-8"))
    folder = Path(heed.__file__).parent / "exchange" / "page"
    return render_template("page.html.j2", folder=folder, data=json.loads(data))
