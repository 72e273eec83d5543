"""``heed attend``: the page, pictures and arrays hold the model's attention maps."""

import io
import json
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heed.cli import main
from heed.inference.loading import load
from heed.interventions import force
from heed.plot.attention_map import most_informative_head
from heed.report.attention import System, attention_page
from tests.cli.models import Refused, TinyModel, save_model

TEXT = ["the tired dog sleeps .", "two men play .", "der müde Hund schläft .", "zwei Männer spielen </script> ."]
SOURCES, TARGETS = TEXT[:2], TEXT[2:]


@pytest.fixture
def folders(tmp_path: Path, tiny_model: TinyModel) -> tuple[Path, Path]:
    """A transformer and an RNN, each with a tokenizer of its own."""
    sizes = {"transformer": 60, "rnn": 50}
    transformer, rnn = (
        save_model(tmp_path / family, tiny_model, family, text=TEXT, vocab_size=size, scale=2.0)
        for family, size in sizes.items()
    )
    return transformer, rnn


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True])
def test_page_holds_the_maps_of_all_models(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], given: bool
) -> None:
    out = tmp_path / "page.html"
    options = [part for target in TARGETS for part in ("--tgt", target)] if given else []
    models = [part for folder in folders for part in ("--model", str(folder))]
    assert main(["attend", *models, *SOURCES, *options, "--out", str(out), "--device", "cpu"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    systems = []
    for folder in folders:
        model = load(folder, device="cpu")
        pairs = model.attend(SOURCES, TARGETS if given else None)
        words = model.score_words(SOURCES, [pair.target for pair in pairs])
        command = ["heed", "attend", "--model", str(folder)]
        systems.append(System(folder.name, str(folder), folder.name, pairs, command, words))
    assert out.read_text(encoding="utf-8") == attention_page(systems, given=given)


def test_forced_words_are_shown_beside_the_translation_as_it_is(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Refused
) -> None:
    out, archive = tmp_path / "page.html", tmp_path / "maps.npz"
    options = ["--tgt", TARGETS[0], "--out", str(out), "--npz", str(archive), "--device", "cpu"]
    words = [SOURCES[0], "--force", "cross: Hund -> dog"]
    assert main(["attend", "--model", str(folders[1]), *words, *options]) == 0
    model = load(folders[1], device="cpu")
    forced = force(model, SOURCES[0], "cross: Hund → dog", target=TARGETS[0])
    command, own = ["heed", "attend", "--model", str(folders[1])], model.score_words(SOURCES[0], TARGETS[0])
    first = System("rnn", str(folders[1]), "rnn", forced[:1], command, own)
    second = System("rnn, forced", str(folders[1]), "rnn", forced[1:])
    assert out.read_text(encoding="utf-8") == attention_page([first, second], given=True)
    lines = [str(out), f"rnn: {forced[0].target}", f"rnn, forced: {forced[1].target}"]
    assert capsys.readouterr().out.splitlines() == lines
    with np.load(archive) as arrays:
        np.testing.assert_allclose(arrays["model2.0.cross"], forced[1].cross, atol=1e-6)
    for wrong in ("cross: Hund -> cat", "encoder: dog -> the", "Hund"):
        refused("attend", "--model", folders[1], SOURCES[0], "--force", wrong, *options)


ACT = """
<script>
const seen = [], errors = [], all = selector => [...document.querySelectorAll(selector)];
const shares = () => all(".keys .word").map(word => word.dataset.share ?? "");
addEventListener("error", event => errors.push(event.message));
const act = (element, event) => element.dispatchEvent(event);
const key = name => act(document.activeElement, new KeyboardEvent("keydown", { key: name, bubbles: true }));
setTimeout(() => {
  const words = all(".queries .word");
  act(words[2], new MouseEvent("mouseenter")); seen.push(shares(), all(".stage path").length);
  act(words[2], new MouseEvent("mouseleave")); seen.push(shares().join(""));
  words[0].focus(); key("ArrowRight"); key("ArrowRight"); seen.push(shares(), all(".chosen").map(w => w.textContent));
  words[2].click(); words[2].blur(); seen.push(shares()); key("Escape"); seen.push(shares().join(""));
  all("input[value='1 3']")[0].click(); seen.push(all("h3")[1].textContent);
  all("input[value=encoder_self]")[0].click(); seen.push(all(".queries .word").map(w => w.textContent));
  document.title = JSON.stringify({ seen, errors });
}, 300);
</script></body>"""


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_mouse_and_keys_mark_the_attended_words(folders: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert main(["attend", "--model", str(folders[0]), SOURCES[0], "--tgt", TARGETS[0], "--out", str(out)]) == 0
    out.write_text(out.read_text(encoding="utf-8").replace("</body>", ACT), encoding="utf-8")
    flags = ["headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
             "disable-component-update", "disable-sync", f"user-data-dir={tmp_path / 'profile'}",
             "virtual-time-budget=3000", "dump-dom"]  # fmt: skip
    command = ["chromium", *(f"--{flag}" for flag in flags), out.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    (title,) = re.findall("<title>(.*?)</title>", dom)
    found = json.loads(unescape(title))
    assert found["errors"] == []
    marked, links, left, stepped, chosen, held, released, head, source = found["seen"]
    (pair,) = load(folders[0]).attend(SOURCES[:1], TARGETS[:1])
    assert pair.cross is not None
    (layer, at) = most_informative_head(pair.cross)
    # The shares are the row of the map in per cent, rounded once when it is stored as a byte.
    weights = pair.cross[layer, at, 2]
    np.testing.assert_allclose([float(share or 0) / 100 for share in marked], weights * (weights > 0.045), atol=0.012)
    assert any(marked)
    assert links == int((np.round(weights * 255) / 255 >= 0.03).sum())
    assert left == released == ""
    assert stepped == held == marked
    assert chosen == [pair.tgt_pieces[2].removeprefix("▁")]
    assert head == "Layer 2, head 4"
    assert source == [piece.removeprefix("▁") or "▁" for piece in pair.src_pieces]


@pytest.mark.slow
def test_pictures_and_arrays(folders: tuple[Path, Path], tmp_path: Path) -> None:
    paths = ["--out", str(tmp_path / "page.html"), "--png", str(tmp_path / "png"), "--npz", str(tmp_path / "maps.npz")]
    assert main(["attend", "--model", str(folders[0]), SOURCES[0], "--tgt", TARGETS[0], *paths]) == 0
    (pair,) = load(folders[0]).attend(SOURCES[:1], TARGETS[:1])
    with np.load(tmp_path / "maps.npz") as arrays:
        assert sorted(arrays) == ["0.cross", "0.decoder_self", "0.encoder_self", "0.src", "0.tgt"]
        np.testing.assert_allclose(arrays["0.cross"], pair.cross, atol=1e-6)
    pictures = {path.name for path in (tmp_path / "png").iterdir()}
    assert len(pictures) == 1 + 2 * 5 + 3 * 5 + 2 * 5  # the overview, and 2 or 3 layers × 5 heads of each kind
    assert {"1.png", "1.cross.2.5.png", "1.encoder_self.3.1.png"} <= pictures
    with Image.open(tmp_path / "png" / "1.cross.2.5.png") as picture:
        assert min(picture.size) > 200

    models = ["--model", str(folders[0]), "--model", str(folders[1])]
    assert main(["attend", *models, SOURCES[0], *paths]) == 0
    with np.load(tmp_path / "maps.npz") as arrays:
        assert arrays["model2.0.cross"].shape[:2] == (1, 1)
        assert [name in arrays for name in ("model1.0.encoder_self", "model2.0.encoder_self")] == [True, False]
    assert sorted(path.name for path in (tmp_path / "png" / "model2").iterdir()) == ["1.cross.1.1.png", "1.png"]


def test_only_one_map_is_drawn_as_svg_and_pdf(folders: tuple[Path, Path], tmp_path: Path) -> None:
    paths = ["--out", str(tmp_path / "page.html"), "--svg", str(tmp_path / "svg"), "--pdf", str(tmp_path / "pdf")]
    only = ["--only", "encoder layer 3 head 4"]
    found = []
    for _ in range(2):
        assert main(["attend", "--model", str(folders[0]), SOURCES[0], "--tgt", TARGETS[0], *paths, *only]) == 0
        svg, pdf = (tmp_path / suffix / f"1.encoder_self.3.4.{suffix}" for suffix in ("svg", "pdf"))
        found.append((svg.read_text(encoding="utf-8"), pdf.read_bytes()))
    assert found[0] == found[1]
    assert "<text" not in found[0][0]  # text as shapes
    assert found[0][0].count("<image") == 2  # the weights, a pixel for each, and the colour scale
    assert found[0][1].startswith(b"%PDF")
    assert [path.name for path in (tmp_path / "svg").iterdir()] == ["1.encoder_self.3.4.svg"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["a dog", "--svg", "maps", "--only", "layer 9 head 1"], "there is no layer 9 head 1: the model's cross att"),
        (["a dog", "--only", "layer 1 head 1"], "add --png DIR, --svg DIR or --pdf DIR"),
        (["a dog", "folder/"], "folder/ is a file or folder and not a sentence"),
        (["folder/", "a dog"], "folder holds no model"),
        (["a dog", "--only", "layer 9"], "'layer 9' must be like 'layer 3 head 4'"),
        (["a dog", "a man", "--tgt", "ein Hund"], "2 sentences and 1 --tgt are not pairs"),
        (["a dog", "--out", "no/where.html"], "no/where.html cannot be written: No such file"),
        (["a dog", "--model", "nowhere"], "There is no folder nowhere"),
        ([], "No sentences are given"),
    ],
)
def test_errors_are_one_sentence(
    folders: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Refused,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert message in refused("attend", "--model", folders[0], *options)
    assert not Path("attention.html").exists()
