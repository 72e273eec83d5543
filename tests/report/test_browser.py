"""Pages in a browser, on a desktop and on a phone: readable text, nothing cut off, links that end at their words."""

from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from docs.explainer import PAGE as EXPLAINER

from heed.comparison import runs
from heed.comparison.challenge import Accuracy, ContrastivePair, Evidence, WordMap
from heed.comparison.comparison import compare
from heed.evaluation.words import split_words
from heed.inference.outputs import Attended
from heed.interventions import HeadImportance, PatchedHead, Patching
from heed.layers.edits import AttentionKind
from heed.report import attention, comparison
from heed.report.interventions import ablation_page, patching_page
from heed.report.run_page import render_report
from heed.report.sweep import study_page
from tests.comparison.sides import make_run, make_test_set
from tests.report import runs as run_folders
from tests.report.chromium import measure, measure_readable, needs_chromium, start_browser
from tests.report.test_sweep import confirmed

pytestmark = [pytest.mark.browser, needs_chromium]

DESKTOP, PHONE = 1280, 390
SENTENCE = "the tired dog that slept under the old bridge saw a bank , and its owner who had lost it was very happy"


def compare_page() -> str:
    references = [f"{SENTENCE} {number}" for number in range(40)]
    cut = [line[: 2 * n] for n, line in enumerate(references)]
    sides = [
        runs.Side("a-transformer-with-a-rather-long-name", [make_run(cut)]),
        runs.Side("rnn", [make_run([line.title() for line in references], params=2000)]),
    ]
    found = compare(make_test_set(references, tags=["common"] * 30 + ["rare"] * 10), sides)
    maps = []
    for example in found.examples:
        words = split_words(example.source), split_words(example.translations[1])
        maps.append(WordMap(*words, np.full((len(words[1]), len(words[0])), 0.5)))
    accuracy = [[{"pronoun": Accuracy(3, 10)}], [{"pronoun": Accuracy(9, 10)}]]
    return comparison.comparison_page(
        found, Evidence("the set", accuracy, [None, maps], ["no cross-attention", "layer 1"])
    )


def attend_page() -> str:
    systems = []
    for name in ("first", "second"):
        pieces = ["▁" + word for word in SENTENCE.split()] + ["</s>"]
        weights = np.random.default_rng(0).dirichlet(np.full(len(pieces), 0.1), size=(3, 8, len(pieces)))
        pair = Attended(SENTENCE, SENTENCE, pieces, pieces, weights, weights, weights)
        command = ["heed", "attend", "--model", f"/a/path/to {name}"]
        words = [[(word, -0.3 * number) for number, word in enumerate(SENTENCE.split())]]
        systems.append(attention.System(name, f"/a/long/path/to/{name}", "transformer", [pair], command, words))
    return attention.attention_page(systems, given=True)


def run_page() -> str:
    with TemporaryDirectory() as folder:
        run = run_folders.make_run(Path(folder) / "run", pieces=30)
        (run / "results.json").write_text(run_folders.results())
        (run / "diagnoses.jsonl").write_text('{"step": 20, "name": "copies", "message": "Half are copies."}\n')
        return render_report(run)


def ablate_page() -> str:
    lost = {"BLEU": (12.3, (-11.2, 23.4)), "challenge accuracy": (-0.1, (-2.3, 0.4))}
    heads = [HeadImportance(kind, 1, head, lost) for kind in ("cross", "encoder_self") for head in range(16)]
    return ablation_page({"BLEU": 45.6, "challenge accuracy": 78.9}, heads, {"model": "/a/long/path/to/a-transformer"})


def patch_page() -> str:
    generator, words = np.random.default_rng(0), SENTENCE.split()
    pairs = []
    for last in ("happy", "tired"):
        pieces = ["▁" + word for word in (*words, last)]
        cross = generator.dirichlet(np.full(len(pieces), 0.1), size=(6, 16, len(pieces)))
        pairs.append(Attended(SENTENCE, SENTENCE, pieces, pieces, cross, cross, cross))
    places: list[tuple[int | None, int | None]] = [*np.ndindex(6, 16), (None, None)]
    kinds: list[AttentionKind] = ["cross", "encoder_self", "decoder_self"]
    chances = np.linspace(0, 1, 2)
    heads = [PatchedHead(kind, *place, 0.123, (-1.1, 1.1), chances) for kind in kinds for place in places]
    sentence = ContrastivePair(SENTENCE, SENTENCE, SENTENCE, "pronoun")
    found = Patching([sentence] * 2, chances, chances, heads, heads[3], 1, pairs)
    return patching_page({"pronoun": found, "far": found}, {"model": "/a/long/path/to/a-transformer"})


def sweep_page() -> str:
    return study_page(confirmed({1: [38.0, 38.2], 2: [37.9]}))


PAGES = {
    "compare": compare_page, "attend": attend_page, "run": run_page,
    "ablate": ablate_page, "patch": patch_page, "sweep": sweep_page,
}  # fmt: skip


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("page", PAGES)
def test_page_is_readable(page: str, width: int, tmp_path: Path) -> None:
    found = measure_readable(PAGES[page](), tmp_path, width=width, texts=100 if page == "sweep" else 20)
    if width == PHONE and page != "ablate":  # it has nothing that is wide
        assert found["scrolls"]
    if page == "attend":
        assert found["links"] > 10
        assert found["pressed"] == ["false"]
        assert found["upright"] == 2  # the sentence does not fit on one line beside the other model


AXE = """
<script>%s</script>
<script>setTimeout(async () => {
  document.documentElement.dataset.theme = "%s";
  const { violations, passes } = await axe.run();
  const found = violations.map(each => [each.impact, each.id, each.nodes[0].html]);
  parent.postMessage(JSON.stringify({ found, passes: passes.length }), "*");
}, 400);</script></body>"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", [*PAGES, "explainer"])
def test_axe_finds_no_serious_barrier(page: str, theme: str, tmp_path: Path) -> None:
    axe = files(pytest.importorskip("axe_core_python")).joinpath("axe.min.js").read_text(encoding="utf-8")
    html = EXPLAINER.read_text(encoding="utf-8") if page == "explainer" else PAGES[page]()
    measured = measure(html, tmp_path, width=PHONE, script=AXE % (axe, theme))
    assert measured["passes"] > 10
    assert [one for one in measured["found"] if one[0] in ("serious", "critical")] == []


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_words_of_the_attention_page_show_how_sure_the_model_is(width: int, tmp_path: Path) -> None:
    page, browser = tmp_path / "page.html", start_browser()
    page.write_text(attend_page(), encoding="utf-8")
    browser.open(page.as_uri(), width=width)
    words = len(SENTENCE.split())
    assert browser.run("document.querySelectorAll('.w').length") == 2 * words
    doubts = browser.run("[...document.querySelectorAll('.w')].map(e => e.style.getPropertyValue('--doubt'))")
    assert doubts[:3] == ["0%", "26%", "45%"]
    browser.run("document.querySelector('.w').focus()")
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.textContent") == SENTENCE.split()[1]
    assert browser.run("document.querySelectorAll('.w[tabindex=\"0\"]').length") == 2
    browser.point(".w", 1)
    assert browser.run("getComputedStyle(document.querySelectorAll('.w')[1], '::after').content") == '"74 %"'
    assert browser.run("document.documentElement.scrollWidth") <= width


USE_ATTENTION = """
<script>
const errors = [];
addEventListener("error", event => errors.push(event.message));
setTimeout(async () => {
  const system = view.systems[0], { rows, columns } = system.words;
  const key = name => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const command = () => system.box.checkVisibility() ? system.code.textContent : null;
  const found = { before: command() };
  rows[1].click(); columns[2].click();
  found.clicked = command();
  found.forced = [...document.querySelectorAll(".word.forced")].map(word => word.textContent);
  system.changes.querySelector("button").click();
  found.taken_back = command();
  const upright = system.stage.classList.contains("upright");
  system.unpin(); rows[0].focus(); document.activeElement.click();
  key(upright ? "ArrowLeft" : "ArrowUp"); key("Home"); document.activeElement.click();
  found.keyboard = command();
  system.scope.querySelectorAll("input")[2].click();
  document.querySelector("input[value=encoder_self]").click();
  system.frame.svg.querySelector("[data-q='4'][data-k='5']").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  found.cell = command();
  found.chips = system.changes.textContent;
  document.querySelector("input[value=decoder_self]").click();
  system.force(2, 0); system.force(1, 2);
  found.ahead = system.status.textContent;
  found.all = command();
  found.width = document.documentElement.scrollWidth;
  navigator.clipboard.writeText = async text => { found.copied = text; };
  system.copy.click();
  await new Promise(done => setTimeout(done, 50));
  found.said = system.copy.textContent;
  parent.postMessage(JSON.stringify({ errors, ...found }), "*");
}, 400);
</script></body>"""


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_attention_page_shows_the_command_that_forces_a_row(tmp_path: Path, width: int) -> None:
    found = measure(attend_page(), tmp_path, width=width, script=USE_ATTENTION)
    assert found["errors"] == []
    command = f"heed attend --model '/a/path/to first' '{SENTENCE}' --tgt '{SENTENCE}'"
    assert found["before"] is found["taken_back"] is None
    assert found["clicked"] == f"{command} --force 'cross: tired → dog'"
    assert found["forced"] == ["tired"]
    first = f"{command} --force 'cross: the → the'"
    assert found["keyboard"] == first
    assert found["cell"].rpartition("--force")[2].startswith(" 'encoder layer ")
    assert found["cell"].endswith(": slept → under'")
    assert found["chips"].count("→") == 2
    assert "comes later" in found["ahead"]
    assert found["all"].startswith(found["cell"])
    assert found["all"].endswith(": dog → <s>'")
    assert found["copied"] == found["all"]
    assert found["said"] == "Copied"
    assert found["width"] <= width


SAVE_FIGURES = """
<script>
const errors = [], blobs = [], printed = [];
addEventListener("error", event => errors.push(event.message));
URL.createObjectURL = blob => { blobs.push(blob); return "data:,"; };
window.print = () => {
  printed.push(document.querySelector("[data-printed]").shadowRoot.innerHTML);
  dispatchEvent(new Event("afterprint"));
};
const saved = async () => {
  document.querySelectorAll(".save").forEach(button => button.click());
  const texts = await Promise.all(blobs.map(blob => blob.text()));
  const parsed = texts.map(text => new DOMParser().parseFromString(text, "image/svg+xml"));
  return {
    saved: parsed.map(svg => svg.querySelector("parsererror") ? "broken" : svg.documentElement.tagName),
    coloured: texts.every(text => /stroke="rgb|fill="rgb/.test(text) && !text.includes("var(--")),
    texts: parsed.map(svg => [...svg.querySelectorAll("text")].map(each => each.textContent)),
    printed: printed.length, left: document.querySelectorAll("[data-printed]").length, name: document.title,
    outside: parsed.flatMap(svg => [...svg.querySelectorAll("svg > svg")].filter(track => {
      const [x, width] = ["x", "width"].map(name => +track.getAttribute(name));
      return x < 0 || x + width > +svg.documentElement.getAttribute("width") + 1;
    })).length,
  };
};
"""
USE_RUN_PAGE = (
    SAVE_FIGURES
    + """setTimeout(async () => {
  const chart = () => document.querySelector(".chart"), slider = document.querySelector("input[type=range]");
  const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const translation = () => document.querySelector(".translation").textContent;
  const weights = () => document.querySelectorAll(".map rect").length;
  const outputs = () => [...document.querySelectorAll("output")].map(each => each.textContent);
  const found = { last: [translation(), weights(), outputs()], charts: document.querySelectorAll(".chart").length };
  press(chart(), "Home");
  found.first_point = chart().getAttribute("aria-label");
  document.querySelector("input[value=time]").click();
  press(chart(), "Home");
  found.first_second = chart().getAttribute("aria-label");
  slider.value = 0;
  slider.dispatchEvent(new Event("input"));
  found.first = [translation(), weights(), outputs()];
  found.marked = [...document.querySelectorAll("details li:nth-child(2) ins")].map(each => each.textContent)[0];
  Object.assign(found, await saved());
  parent.postMessage(JSON.stringify({ errors, ...found }), "*");
}, 400);
</script></body>"""
)


def test_the_page_of_a_run_can_be_used_with_the_keyboard(tmp_path: Path) -> None:
    found = measure(run_page(), tmp_path, width=DESKTOP, script=USE_RUN_PAGE)
    assert found["errors"] == []
    assert found["charts"] == 8
    assert found["first_point"] == "Loss at step 5: train 5.667"
    assert found["first_second"] == "Loss at seconds 2.5: train 5.667"
    assert found["last"][0].startswith("Version 60")
    assert found["first"][0].startswith("Version 20")
    assert found["last"][2] == ["step 60", "step 60"]
    assert found["first"][2] == ["step 20", "step 20"], "the sliders of translations and maps move together"
    assert found["first"][1] != found["last"][1]
    assert found["marked"] == "40"
    assert found["saved"] == ["svg"] * found["printed"] == ["svg"] * 9
    assert found["coloured"]
    assert found["left"] == 0


def test_the_page_of_a_run_that_trains_loads_itself_again_as_a_file(tmp_path: Path) -> None:
    page, run, browser = tmp_path / "report.html", run_folders.make_run(tmp_path / "run"), start_browser()
    page.write_text(render_report(run, is_running=True).replace("idle = 60e3", "idle = 100"), encoding="utf-8")
    browser.open(page.as_uri(), width=DESKTOP)
    assert browser.run("document.querySelector('.state').textContent") == "running"
    (run / "results.json").write_text(run_folders.results())
    page.write_text(render_report(run).replace("idle = 60e3", "idle = 100"), encoding="utf-8")
    browser.wait("document.querySelector('.state')?.textContent === 'finished'")
    browser.run("globalThis.kept = true; new Promise(done => setTimeout(done, 2500))")
    assert browser.run("globalThis.kept"), "the page of a finished run stays as it is"


SAVE_ALL = (
    SAVE_FIGURES
    + """
setTimeout(async () => parent.postMessage(JSON.stringify({ errors, ...await saved() }), "*"), 400);
</script></body>"""
)


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_each_figure_of_a_comparison_is_saved_with_its_texts(tmp_path: Path, width: int) -> None:
    html = compare_page()
    found = measure(html, tmp_path, width=width, script=SAVE_ALL)
    assert found["errors"] == []
    figures = html.count('class="plot"') + html.count('<svg class="map"')
    assert found["saved"] == ["svg"] * found["printed"] == ["svg"] * figures
    assert found["coloured"]
    assert found["left"] == found["outside"] == 0
    assert found["name"].startswith("Comparison of ")
    by_title = {texts[0]: " ".join(texts) for texts in found["texts"]}
    assert {"Differences in BLEU", "Differences in chrF", "BLEU by Phenomenon"} <= {*by_title}
    for part in ("a-transformer-with-a-rather-long-name", "rnn", "pronoun", "90.0 %"):
        assert part in by_title["Contrastive accuracy in per cent"]
