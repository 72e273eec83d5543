"""``--to page``: a page that computes what heed computes."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heed
from heed.data.pairs.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.exchange import to_page
from heed.inference.translator import Translator
from heed.models import build_model
from heed.plot.attention_map import most_informative_head
from heed.symbols import BOS, EOS
from tests.conftest import RNN
from tests.exchange.models import (
    ADDITIVE,
    LINES,
    PARAMETER_FREE,
    UNSCALED,
    positions,
    transformer,
    write_model,
    write_run,
)
from tests.report.chromium import MEASURE, measure, measure_readable, needs_chromium
from tests.tokenizers import train_tokenizer

Heed = Callable[..., tuple[int, str, str]]

TIE = 1e-4
"""Two tokens whose log p differ by less than this may be chosen either way."""

ODD = [
    "", " ", "  the  dog ", "\t", "\n", "the\ndog", "▁", "▁▁dog", "dog▁", " ▁ ", "undefined", "</s> <unk> <0x41>",
    "😀 runs", "e\u0301", "the\u200bdog", "\u00a0", "\u00a0x\u00a0", "\ufeffthe", "\x1c\x1d", "№ ﬁ", "日本語",
    "\U0001f469\u200d\U0001f467", "über 12,345",
]  # fmt: skip


IDENTITY = {"normalization_rule_name": "identity"}
UNIGRAM = {"model_type": "unigram", "hard_vocab_limit": False}


def write_identity_run(
    folder: Path, *, joint: bool = True, rnn: bool = False, pieces: Mapping[str, Any] = IDENTITY, **changes: Any
) -> Path:
    """Write a run with a tiny model whose tokenizer does not change the text, as heed's default.

    With an output layer of its own, random weights give varied translations.
    """
    changes = {"tie_embeddings": False, **changes}
    config = replace(RNN, **changes) if rnn else transformer(**changes)
    return write_run(folder / "run", config, joint=joint, **pieces)


# ---- What is exported, without a browser.


def export(heed_cli: Heed, run: Path, page: Path, *options: Any) -> str:
    status, out, err = heed_cli("export", run, "--to", "page", "--out", page, *options)
    assert status == 0, err
    return out


def exact_page(heed_cli: Heed, folder: Path, **changes: Any) -> tuple[Path, Path]:
    """Return a run and its page with exact weights."""
    run, page = write_identity_run(folder, **changes), folder / "model.html"
    export(heed_cli, run, page, "--quantization", "float32")
    return run, page


@pytest.mark.slow
def test_the_page_has_the_weights_and_examples(heed_cli: Heed, tmp_path: Path) -> None:
    run = write_identity_run(tmp_path)
    exact, rounded = tmp_path / "exact.html", tmp_path / "rounded.html"
    assert "5 of 5 greedy translations are equal" in export(heed_cli, run, exact, "--quantization", "float32")
    assert "BLEU (greedy)" in export(heed_cli, run, rounded)
    html = rounded.read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    assert "the farmer saw the dog and the cat" in html
    assert len(html) < len(exact.read_text(encoding="utf-8"))


def test_weights_are_exact_or_rounded_by_half_a_step_at_most() -> None:
    model = build_model(transformer(), src_vocab=40, tgt_vocab=40, joint=True)
    tensors, exact, weights = to_page.encode_weights(model, "float32")
    parameters = [parameter.detach() for parameter in model.parameters()]
    assert exact == b"".join(parameter.numpy().tobytes() for parameter in parameters)
    assert all(map(torch.equal, parameters, weights))
    for kind, largest, share in (("int8", 127, 0.4), ("int10", 511, 0.46)):
        tensors, rounded, weights = to_page.encode_weights(model, kind)
        assert "encoder.0.self_attention.query.weight" in [name for name, _, _ in tensors]
        assert len(rounded) < share * len(exact)
        for parameter, weight in zip(parameters, weights, strict=True):
            half_a_step = (
                parameter.abs().amax(-1, keepdim=True) / largest / 2 if parameter.ndim == 2 else torch.zeros(1)
            )
            assert ((parameter - weight).abs() <= half_a_step * (1 + 1e-4)).all()


@pytest.mark.slow
def test_a_model_folder_without_sentences_has_no_examples(heed_cli: Heed, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", transformer(), **IDENTITY)
    assert "not checked" in export(heed_cli, model, tmp_path / "page.html")
    (tmp_path / "lines.txt").write_text("a dog and a cat saw the farmer\n")
    out = export(heed_cli, model, tmp_path / "checked.html", "--check", tmp_path / "lines.txt")
    assert "1 of 1 greedy" in out
    assert "a dog and a cat saw the farmer" in (tmp_path / "checked.html").read_text(encoding="utf-8")


UNSUPPORTED = {
    "model.cell=gru": replace(RNN, cell="gru"),
    "model.residual=true": replace(RNN, residual=True),
    "model.attention.score=dot": replace(RNN, attention=replace(RNN.attention, score="dot")),
    "input_feeding=false": replace(RNN, attention=replace(RNN.attention, input_feeding=False)),
    "model.norm=none": transformer(norm="none"),
    "model.norm_kind=rms": transformer(norm_kind="rms"),
    "model.residual=false": transformer(residual=False),
    "model.activation=gelu": transformer(activation="gelu"),
    "model.positions.kind=alibi": transformer(positions=positions("alibi")),
    "positions but rotary, none and added sinusoids": transformer(positions=positions("sinusoidal", "concat")),
    "parameter_free": transformer(self_attention=PARAMETER_FREE),
    "scores with weights": transformer(self_attention=ADDITIVE),
}


@pytest.mark.slow
@pytest.mark.parametrize(("reason", "config"), UNSUPPORTED.items(), ids=UNSUPPORTED)
def test_other_architectures_are_refused(reason: str, config: Any) -> None:
    with torch.device("meta"):
        model = build_model(config, src_vocab=40, tgt_vocab=40, joint=True)
    with pytest.raises(HeedError, match=reason):
        to_page.describe(model)


def test_a_tokenizer_that_reads_spaces_otherwise_is_refused() -> None:
    tokenizer = train_tokenizer(LINES * 3, vocab_size=40, joint=True, add_dummy_prefix=False)
    with pytest.raises(HeedError, match="cannot read spaces"):
        to_page.tokenizer_data(tokenizer.models[0])


@pytest.mark.slow
def test_wrong_options_are_one_sentence(refused: Callable[..., str], tmp_path: Path) -> None:
    run = write_identity_run(tmp_path)
    page = tmp_path / "page.html"
    page.write_text("mine")
    for options in (["--quantization", "int16"], ["--out", page]):
        refused("export", run, "--to", "page", *options)
    assert page.read_text() == "mine"


# ---- What a browser computes.

COMPUTE = """
<script>
const errors = [];
addEventListener("error", event => errors.push(event.message));
setTimeout(() => {
  const given = GIVEN;
  const translations = given.sources.map(text => {
    state.ids = [...source.encode(text), EOS];
    const { tokens, steps, maps } = compute(given.edits, []);
    const log_prob = steps.reduce((sum, { probabilities, token }) => sum + Math.log(probabilities[token]), 0);
    return { ids: state.ids, tokens, text: target.decode(tokens), log_prob,
      maps: given.maps && Object.fromEntries(Object.entries(maps).map(([kind, { shape, weights, best }]) =>
        [kind, { shape, weights: [...weights], best }])) };
  });
  const pieces = given.odd.map(text => source.encode(text));
  const read = given.odd.map(text => source.encode(source.withKnownSpaces(text)));
  const texts = given.decoded.map(ids => target.decode(ids));
  parent.postMessage(JSON.stringify({ errors, translations, pieces, read, texts }), "*");
}, 400);
</script></body>"""


def compute(page: Path, folder: Path, **given: Any) -> dict[str, Any]:
    """Return what the model of a page computes, in Chromium."""
    defaults = {"sources": [], "edits": [], "odd": [], "decoded": [], "maps": False}
    script = COMPUTE.replace("GIVEN", json.dumps({**defaults, **given}).replace("</", "<\\/"))
    found = measure(page.read_text(encoding="utf-8"), folder, width=1280, script=script)
    assert found["errors"] == []
    return found


@torch.inference_mode()
def is_tie(translator: Translator, source: list[int], ours: Sequence[int], theirs: Sequence[int]) -> bool:
    """Return whether log p of the first two different tokens differ by less than `TIE`."""
    first = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    logits = translator.model(torch.tensor([source]), None, torch.tensor([[BOS, *ours[:first]]]))[0, -1]
    return abs(float(logits[ours[first]] - logits[theirs[first]])) < TIE


def equal_translations(run: Path, page: Path, sources: list[str], folder: Path) -> int:
    """Return how many greedy translations in the browser are those of heed, or differ by a tie."""
    translator = heed.load(run, device="cpu")
    ids = translator.tokenizer.encode_src(sources)
    ours = translator.translate_ids(ids, search=translator.changed_search(beam=1))
    equal = 0
    for source, (best,), theirs in zip(ids, ours, compute(page, folder, sources=sources)["translations"], strict=True):
        assert theirs["ids"] == [*source, EOS]
        tokens = [*best.tokens, EOS] if best.finished else best.tokens
        equal += theirs["tokens"] == tokens or is_tie(translator, theirs["ids"], tokens, theirs["tokens"])
    return equal


def odd_strings(count: int) -> list[str]:
    rng = random.Random(1)
    alphabet = "abdeghortéß ▁  0😀日\n\t.,'’"
    return [*ODD, *("".join(rng.choice(alphabet) for _ in range(rng.randrange(30))) for _ in range(count))]


def check_tokenizer(tokenizer: Tokenizer, page: Path, folder: Path) -> None:
    """Check that the page encodes and decodes as heed's tokenizer, does (SentencePiece), and reads white space."""
    rng, odd = random.Random(2), odd_strings(300)
    decoded = [[rng.randrange(tokenizer.tgt_vocab) for _ in range(rng.randrange(9))] for _ in range(150)]
    decoded += [[rng.randrange(min(260, tokenizer.tgt_vocab)) for _ in range(9)] for _ in range(150)]  # bytes
    found = compute(page, folder, odd=odd, decoded=decoded)
    assert found["pieces"] == tokenizer.encode_src([line if line.strip() else "" for line in odd])
    known = [tokenizer.with_known_spaces(line) if line.strip() else "" for line in odd]
    assert found["read"] == tokenizer.encode_src(known)
    assert (found["read"] == found["pieces"]) == (tokenizer.processors[0].normalize("\n") == "")  # \n is a space there
    assert found["texts"] == tokenizer.decode_tgt(decoded)


def browser(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that needs Chromium."""
    return pytest.mark.browser(needs_chromium(test))


BYTES = {**IDENTITY, "vocab_size": 300, "byte_fallback": True}
ONE_WAY = {"rnn": True, "layers": 1, "bidirectional": False}
VARIANTS: dict[str, tuple[dict[str, Any], bool]] = {
    "RNN of two layers": ({"rnn": True}, True),
    "RNN, backward only, two tokenizers": ({**ONE_WAY, "reverse_source": True}, False),
    "RNN, forward only": (ONE_WAY, True),
    "pre-norm": ({}, True),
    "tied": ({"tie_embeddings": True}, True),
    "post-norm, two tokenizers": ({"norm": "post"}, False),
    "rotary positions": ({"positions": positions("rotary")}, True),
    "no positions": ({"positions": positions("none")}, True),
    "unscaled, other depths, bytes": (
        {"self_attention": UNSCALED, "encoder_layers": 1, "decoder_layers": 3, "pieces": BYTES}, True,
    ),
    "unigram": ({"pieces": {**IDENTITY, **UNIGRAM}}, True),
    "characters": ({"pieces": {**IDENTITY, "model_type": "char", "hard_vocab_limit": False}}, True),
    "post-norm, SiLU, output bias, normalized": (
        {"norm": "post", "activation": "silu", "output_bias": True, "pieces": {"normalization_rule_name": "nmt_nfkc"}},
        True,
    ),
    "unigram, case-folded": ({"pieces": {**UNIGRAM, "normalization_rule_name": "nmt_nfkc_cf"}}, False),
    "unigram, bytes, two tokenizers": ({"pieces": {**BYTES, **UNIGRAM}}, False),
}  # fmt: skip


@browser
@pytest.mark.parametrize(("changes", "joint"), VARIANTS.values(), ids=VARIANTS)
def test_a_browser_computes_what_heed_computes(
    heed_cli: Heed, tmp_path: Path, changes: dict[str, Any], joint: bool
) -> None:
    run, page = exact_page(heed_cli, tmp_path, joint=joint, **changes)
    sources = ["the cat saw a house and the farmer", "the dog the dog x", "a"]
    assert equal_translations(run, page, sources, tmp_path) == len(sources)
    translator = heed.load(run, device="cpu")
    check_tokenizer(translator.tokenizer, page, tmp_path)
    check_maps(translator, page, sources, tmp_path)


@browser
@pytest.mark.parametrize("kind", ["int8", "int10"])
def test_a_browser_reads_rounded_weights(heed_cli: Heed, tmp_path: Path, kind: str) -> None:
    run, page = write_identity_run(tmp_path), tmp_path / "model.html"
    export(heed_cli, run, page, "--quantization", kind)
    rounded = heed.load(run, device="cpu")
    with torch.no_grad():
        for parameter, weight in zip(
            rounded.model.parameters(), to_page.encode_weights(rounded.model, kind)[2], strict=True
        ):
            parameter.copy_(weight)
    check_maps(rounded, page, ["the cat saw a house and the farmer"], tmp_path)


def check_maps(translator: Translator, page: Path, sources: list[str], tmp_path: Path) -> None:
    """The page's maps of greedy translations are those of a translator."""
    for pair, theirs in zip(
        translator.attend(sources, beam=1),
        compute(page, tmp_path, sources=sources, maps=True)["translations"],
        strict=True,
    ):
        for maps in pair.map_sets:
            found = theirs["maps"][maps.kind]
            assert tuple(found["shape"]) == maps.weights.shape
            assert np.abs(np.reshape(found["weights"], found["shape"]) - maps.weights).max() < 1e-4
            assert tuple(found["best"]) == most_informative_head(maps.weights)


@browser
def test_a_head_that_is_off_adds_nothing(heed_cli: Heed, tmp_path: Path) -> None:
    run, page = exact_page(heed_cli, tmp_path)
    off = [("encoder_self", 0, 1), ("cross", 1, 2), ("decoder_self", 1, 0)]
    edits = [{"kind": kind, "layer": layer, "head": head, "query": None, "weights": None} for kind, layer, head in off]
    found = compute(page, tmp_path, sources=LINES, edits=edits)["translations"]
    translator: Any = heed.load(run, device="cpu")
    width = translator.model.config.self_width
    for kind, layer, head in off:
        stack: Any = translator.model.encoder if kind == "encoder_self" else translator.model.decoder
        block = stack[layer].cross_attention if kind == "cross" else stack[layer].self_attention
        with torch.no_grad():  # the columns of W^O that read this head
            block.sublayer.attention.output.weight[:, head * width : (head + 1) * width] = 0
    ours = [best for (best,) in translator.hypotheses(LINES, beam=1)]
    assert [each["text"] for each in found] == [each.text for each in ours]
    assert [each["log_prob"] for each in found] == pytest.approx([each.log_prob for each in ours], abs=1e-3)
    plain = heed.load(run, device="cpu").translate(LINES, beam=1)
    assert plain != [each.text for each in ours]


@browser
def test_forced_rows_have_the_given_weights(heed_cli: Heed, tmp_path: Path) -> None:
    page = exact_page(heed_cli, tmp_path)[1]
    calculate = partial(compute, page, tmp_path, sources=[LINES[2]], maps=True)
    (plain,) = calculate()["translations"]
    weights = {kind: np.reshape(each["weights"], each["shape"]) for kind, each in plain["maps"].items()}

    def edit(kind: str, query: int, row: Any, layer: Any = None, head: Any = None) -> dict[str, Any]:
        return {"kind": kind, "layer": layer, "head": head, "query": query, "weights": [*map(float, row)]}

    sizes = {kind: rows.shape[3] for kind, rows in weights.items()}
    own = [
        edit(kind, query, rows[layer, head, query, : query + 1 if kind == "decoder_self" else sizes[kind]], layer, head)
        for kind, rows in weights.items()
        for layer in range(rows.shape[0])
        for head in range(rows.shape[1])
        for query in range(rows.shape[2])
    ]
    (same,) = calculate(edits=own)["translations"]
    assert same["tokens"] == plain["tokens"]
    assert same["log_prob"] == pytest.approx(plain["log_prob"], abs=1e-6)

    row = np.random.default_rng(1).dirichlet(np.ones(sizes["cross"])).astype(np.float32)
    (forced,) = calculate(edits=[edit("cross", 2, row)])["translations"]
    cross = np.reshape(forced["maps"]["cross"]["weights"], forced["maps"]["cross"]["shape"])
    assert np.abs(cross[:, :, 2] - row).max() < 1e-6
    assert forced["tokens"][:2] == plain["tokens"][:2], "the tokens before the row are kept"
    assert np.abs(cross[:, :, :2] - weights["cross"][:, :, :2]).max() < 1e-6
    (one,) = calculate(edits=[edit("cross", 2, row, layer=1, head=3)])["translations"]
    cross = np.reshape(one["maps"]["cross"]["weights"], one["maps"]["cross"]["shape"])
    assert np.abs(cross[1, 3, 2] - row).max() < 1e-6
    assert np.abs(cross[1, 2, 2] - weights["cross"][1, 2, 2]).max() < 1e-6


@browser
@pytest.mark.full
@pytest.mark.parametrize("model", ["transformer", "rnn"])
def test_a_trained_model_translates_as_heed_does(
    model: str, run: Callable[..., Path], heed_cli: Heed, tmp_path: Path
) -> None:
    small = [f"model={model}", "model.d_model=64", "data.train=4000", "data.valid=100", "data.test=200", "data.long=10"]
    folder = run("trained", *small, "trainer.max_steps=300", "search=greedy", "callbacks.attention_maps=null")
    sources = (folder / "translations" / "test.src").read_text(encoding="utf-8").splitlines()
    assert len(sources) == 200  # the export sees the validation set only
    exact, rounded = tmp_path / "exact.html", tmp_path / "rounded.html"
    export(heed_cli, folder, exact, "--quantization", "float32")
    export(heed_cli, folder, rounded)
    assert equal_translations(folder, exact, sources, tmp_path) == 200
    assert equal_translations(folder, rounded, sources, tmp_path) >= 194
    check_tokenizer(heed.load(folder, device="cpu").tokenizer, exact, tmp_path)


# ---- The interface.


@pytest.fixture
def page(heed_cli: Heed, tmp_path: Path) -> str:
    run, page = write_identity_run(tmp_path), tmp_path / "model.html"
    export(heed_cli, run, page)
    return page.read_text(encoding="utf-8")


@browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_readable(page: str, width: int, tmp_path: Path) -> None:
    assert measure_readable(page, tmp_path, width=width, texts=40)["links"] > 5


FORCE = """
explorer.words.rows[1].click();
explorer.words.columns[0].click();
const isShown = [$("kinds"), explorer.scope].map(each => each.checkVisibility());
const forced = state.found.maps.cross.weights[explorer.maps.K], switches = document.querySelectorAll(".switch").length;
parent.postMessage(JSON.stringify({ isShown, forced, switches, """


@browser
def test_the_page_of_an_rnn_shows_its_only_attention(heed_cli: Heed, tmp_path: Path) -> None:
    run, page = write_identity_run(tmp_path, rnn=True), tmp_path / "model.html"
    export(heed_cli, run, page)
    script = MEASURE.replace("parent.postMessage(JSON.stringify({", FORCE)
    found = measure(page.read_text(encoding="utf-8"), tmp_path, width=1280, script=script)
    assert found["errors"] == []
    assert (found["isShown"], found["switches"]) == ([False, False], 1)
    assert found["forced"] == 1
    assert found["loose_links"] == found["crossing_links"] == 0


USE = """
<script>
const errors = [];
addEventListener("error", event => errors.push(event.message));
setTimeout(() => {
  const text = () => state.found.text;
  const edits = () => state.edits.map(({ kind, layer, head, query, key }) => [kind, layer, head, query, key ?? null]);
  const key = name => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const enter = () => document.activeElement.click();   // what browsers do on Enter
  const row = (layer, head, query) => {
    const { K } = explorer.maps;
    return [...explorer.maps.head(layer, head)].slice(query * K, (query + 1) * K);
  };
  const point = (type, element) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    const middle = { clientX: x + width / 2, clientY: y + height / 2 };
    element.dispatchEvent(new PointerEvent(type, { ...middle, bubbles: true, isPrimary: true }));
  };
  const found = { sentence: $("text").value, plain: text(), chips: chips().length };
  found.examples = $("examples").options.length - 1;
  chips()[1].click();
  found.step = $("step").textContent;
  found.chances = state.found.steps[1].probabilities[state.found.tokens[1]];
  found.shown = chips()[1].getAttribute("aria-label");

  const isUpright = explorer.stage.classList.contains("upright");
  const [toKeys, next] = isUpright ? ["ArrowLeft", "ArrowDown"] : ["ArrowUp", "ArrowRight"];
  explorer.words.rows[1].focus(); key(toKeys); key("Home"); key(next);   // from the query to the second key
  enter();
  found.keyboard = edits();
  found.forced = row(1, 2, 1);
  found.focus = explorer.words.columns.indexOf(document.activeElement);
  enter();
  found.taken_back = [edits(), text() === found.plain];

  explorer.words.rows[1].scrollIntoView({ block: "center" });
  const end = explorer.words.columns[0];
  point("pointerdown", explorer.words.rows[2]); point("pointermove", end); point("pointerup", end);
  found.dragged = edits();
  found.listed = $("changes").textContent;
  document.querySelector("#changes button").click();

  const cell = explorer.frame.svg.querySelector("[data-q='2'][data-k='1']");
  cell.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  found.cell = edits();
  document.querySelector("#changes button").click();

  const heads = document.querySelector("[data-switch='1 2']");
  heads.focus(); enter();
  found.off = edits();
  found.zeros = Math.max(...row(1, 2, 1));
  found.unchecked = [document.activeElement.dataset.switch, document.activeElement.getAttribute("aria-checked")];
  $("text").value = "a cat sleeps"; $("text").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  found.kept = edits();
  document.querySelector("[data-switch='1 2']").click();

  document.querySelector("input[value=decoder_self]").click();
  explorer.words.rows[0].click(); explorer.words.columns[1].click();
  found.ahead = [edits(), $("systems").querySelector(".status").textContent];
  document.querySelector("input[value=encoder_self]").click();
  explorer.words.rows[0].click(); explorer.words.columns[1].click();
  found.encoder = edits();
  document.querySelector("#changes button").click();

  chips()[1].click();
  document.querySelectorAll(".candidate")[3].click();
  found.chosen = [state.found.tokens[1], state.prefix];
  document.querySelector("#changes button").click();
  found.end = [edits(), state.prefix, $("changes").children.length, $("before").hidden];
  $("text").value = "  "; read();
  $("on").click(); $("play").click();
  found.empty = [chips().length, $("insides").hidden, $("step").textContent];
  $("text").value = "the\u00a0 dog\\nruns"; read();
  found.spaces = [state.ids.slice(0, -1), source.encode("the dog runs")];
  $("text").value = "the house ".repeat(MOST_PIECES); read();
  found.long = [chips().length, $("count").textContent];
  parent.postMessage(JSON.stringify({ errors, ...found }), "*");
}, 400);
</script></body>"""


@browser
def test_the_page_is_used_by_mouse_and_keyboard(page: str, tmp_path: Path) -> None:
    found = measure(page, tmp_path, width=1280, script=USE)
    assert found["errors"] == []
    assert found["sentence"] == LINES[1]
    assert found["examples"] >= 1
    assert found["chips"] > 2
    assert found["step"].startswith("step 2 of")
    assert found["shown"].endswith(f", {round(100 * found['chances'])} %")
    assert found["keyboard"] == [["cross", None, None, 1, 1]]
    assert [round(weight, 6) for weight in found["forced"]] == [0, 1] + [0] * (len(found["forced"]) - 2)
    assert found["focus"] == 1, "the keyboard stays at the key"
    assert found["taken_back"] == [[], True]
    assert found["dragged"] == [["cross", None, None, 2, 0]]
    assert "cross-attention" in found["listed"]
    assert found["cell"] == [["cross", None, None, 2, 1]]
    assert found["off"] == found["kept"] == [["cross", 1, 2, None, None]]
    assert found["zeros"] == 0
    assert found["unchecked"] == ["1 2", "false"]
    assert found["ahead"][0] == []
    assert "comes later" in found["ahead"][1]
    assert found["encoder"] == [["encoder_self", None, None, 0, 1]]
    assert found["chosen"][1][-1] == found["chosen"][0]
    assert len(found["chosen"][1]) == 2
    assert found["end"] == [[], [], 0, True]
    assert found["empty"] == [0, True, ""]
    assert found["spaces"][0] == found["spaces"][1]
    assert found["long"][0] == 0
    assert "the page shows up to 100" in found["long"][1]
