"""Open an exported model in other interpretability tools: the figures of docs/attention.md.

    heed export RUN --to huggingface
    python scripts/bridges.py RUN [--only captum] [--export FOLDER] [--figures FOLDER]

Each function of `TOOLS` opens the model in one tool, compares what the tool computes with heed, and draws a figure. Its
body can be copied into the cell of a notebook that starts with::

    sys.path.append("scripts")  # of heed's clone
    from bridges import *
    example = open_example("runs/mine", "runs/mine/export/huggingface")
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor
from torch.testing import assert_close

import heed
from heed.errors import HeedError
from heed.inference.outputs import Attended
from heed.interventions import Edit
from heed.plot.attention_map import piece_label
from heed.symbols import BOS, EOS, UNK

SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
)


@dataclass(frozen=True)
class Example:
    """Two sentences of the same length, which the model translates differently, and what heed computes for them."""

    model: heed.Translator
    folder: str
    """The exported model."""
    pairs: list[Attended]
    """Both translations, with heed's attention maps."""
    src: list[Tensor]
    """Both sources, each "1 S"."""
    tgt: Tensor
    """The decoder's input for the first translation, "1 T". It starts with BOS."""
    step: int
    """The first position at which the translations differ."""
    choices: tuple[int, int]
    """The pieces of both translations at this position."""

    def logits(self, src: Tensor, edits: Sequence[Edit] = ()) -> Tensor:
        """Return heed's logits of the first translation, given a source, "T V"."""
        model = self.model.model.eval()
        with torch.inference_mode():
            return model.decode(self.tgt, model.encode(src, None, edits=edits), edits=edits).logits[0]

    def contrast(self, logits: Tensor) -> Tensor:
        """Return the logit of the first choice minus that of the second, given logits "… V"."""
        return logits[..., self.choices[0]] - logits[..., self.choices[1]]


def open_example(run: str, folder: str, sentences: Sequence[str] = SENTENCES) -> Example:
    """Translate two sentences with heed.

    Args:
        run: a run, or its model folder.
        folder: the result of ``heed export RUN --to huggingface``.

    Raises:
        HeedError: if the sentences differ in length, or not in their translations.
    """
    model = heed.load(run)
    texts = model.translate(sentences)
    sources = [[*ids, EOS] for ids in model.tokenizer.encode_src(sentences)]
    first, second = ([*ids, EOS] for ids in model.tokenizer.encode_tgt(texts))
    if first == second or len(sources[0]) != len(sources[1]):
        raise HeedError("The two sentences need the same number of pieces and different translations: choose others.")
    step = next(t for t, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    src, tgt = [torch.tensor([ids]) for ids in sources], torch.tensor([[BOS, *first[:-1]]])
    return Example(model, folder, model.attend(sentences, texts), src, tgt, step, (first[step], second[step]))


def heat_map(
    ax: Axes, values: Any, rows: Sequence[str], columns: Sequence[str], texts: Any = None, **options: Any
) -> None:
    """Draw a matrix with names of its rows and columns, and optionally a text in each cell."""
    values = np.asarray(values)
    image = ax.imshow(values, aspect="auto", **options)
    ax.set_yticks(range(len(rows)), rows, parse_math=False)
    ax.set_xticks(range(len(columns)), columns, rotation=90 * (len(columns) > 5), parse_math=False)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    for place, text in np.ndenumerate([] if texts is None else texts):
        is_dark = sum(image.cmap(image.norm(values[place]))[:3]) < 1.5
        color = "white" if is_dark else "black"
        ax.text(place[1], place[0], text, color=color, ha="center", va="center", size=8, parse_math=False)


def transformer_lens(example: Example) -> Any:
    """Logit lens: what the decoder would predict after each of its blocks."""
    import matplotlib.pyplot as plt
    from transformer_lens.model_bridge import TransformerBridge

    bridge = TransformerBridge.boot_transformers(example.folder, device="cpu")
    with torch.no_grad():
        logits, cache = bridge.run_with_cache(example.src[0], decoder_input=example.tgt)
        assert_close(logits[0], example.logits(example.src[0]), atol=1e-4, rtol=0)

        is_pre_norm = hasattr(bridge, "decoder_ln_final")
        after = ("ln2.hook_in", "ln3.hook_in", "hook_out") if is_pre_norm else [f"ln{n}.hook_out" for n in (1, 2, 3)]
        names, streams = ["embedding"], [cache["decoder_blocks.0.hook_in"]]
        for layer in range(bridge.cfg.n_layers):
            names += [f"{layer + 1} {block}" for block in ("self-attention", "cross-attention", "feed-forward")]
            streams += [cache[f"decoder_blocks.{layer}.{point}"] for point in after]
        norm = bridge.decoder_ln_final if is_pre_norm else torch.nn.Identity()
        lens = torch.stack([bridge.unembed(norm(stream))[0] for stream in streams])  # stream, T, V
    assert_close(lens[-1], logits[0], atol=1e-4, rtol=0)
    for layer, weights in enumerate(torch.tensor(example.pairs[0].cross)):
        assert_close(cache[f"decoder_blocks.{layer}.cross_attn.hook_pattern"][0], weights, atol=1e-4, rtol=0)

    best = lens.argmax(-1)
    probabilities = lens.softmax(-1).gather(-1, best[-1:, :, None].expand(len(lens), -1, -1))[..., 0]
    pieces = [[piece_label(piece) for piece in example.model.tokenizer.tgt_pieces(row)] for row in best.tolist()]
    figure, ax = plt.subplots(figsize=(11, 3.2), layout="constrained")
    columns = [piece_label(piece) for piece in example.pairs[0].read_pieces]
    heat_map(ax, probabilities, names, columns, pieces, cmap="Blues", vmin=0, vmax=1)
    return figure


def nnsight(example: Example) -> Any:
    """Patching: replace the weights of one attention head by those that it has in the second sentence."""
    import matplotlib.pyplot as plt
    from nnsight import NNsight
    from transformers import AutoModelForSeq2SeqLM

    plain = AutoModelForSeq2SeqLM.from_pretrained(example.folder, attn_implementation="eager")
    model, prefix = NNsight(plain), example.tgt[:, : example.step + 1]
    with torch.no_grad():
        other = plain(input_ids=example.src[1], decoder_input_ids=prefix, output_attentions=True)
    encoder, decoder = model.model.encoder.layers, model.model.decoder.layers
    kinds: dict[Any, Any] = {
        "encoder_self": ([layer.self_attn for layer in encoder], torch.cat(other.encoder_attentions)),
        "decoder_self": ([layer.self_attn for layer in decoder], torch.cat(other.decoder_attentions)),
        "cross": ([layer.encoder_attn for layer in decoder], torch.cat(other.cross_attentions)),
    }
    whole = example.contrast(example.logits(example.src[0])[example.step])
    limit = float(whole.abs())
    figure, axes = plt.subplots(1, 3, figsize=(11, 2.3), layout="constrained")
    for ax, (kind, (attentions, maps)) in zip(axes, kinds.items(), strict=True):
        change = np.zeros(maps.shape[:2])
        for layer, head in np.ndindex(change.shape):
            attention = attentions[layer]
            with torch.no_grad(), model.trace(input_ids=example.src[0], decoder_input_ids=prefix):
                weights = attention.source.attention_interface_1.source.nn_functional_softmax_0.output
                weights[:, head] = maps[layer, head]
                logits = model.output.logits[0, -1].save()
            edited = example.logits(example.src[0], [Edit(kind, maps, [layer], [head])])[example.step]
            assert_close(logits, edited, atol=1e-4, rtol=0)
            change[layer, head] = example.contrast(logits) - whole
        names = [f"layer {n + 1}" for n in range(len(change))], [f"head {n + 1}" for n in range(change.shape[1])]
        texts = [[f"{value:+.1f}" for value in row] for row in change.round(1) + 0.0]  # no −0.0
        heat_map(ax, change, *names, texts, cmap="RdBu", vmin=-limit, vmax=limit)
        ax.set_title(kind)
    return figure


def captum(example: Example) -> Any:
    """Attribution: which pieces of the source speak for the first choice, and which for the second."""
    import matplotlib.pyplot as plt
    from captum.attr import IntegratedGradients
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained(example.folder)
    encoder, prefix = model.model.encoder, example.tgt[:, : example.step + 1]

    def contrast(embedded: Tensor) -> Tensor:
        logits = model(inputs_embeds=embedded, decoder_input_ids=prefix.expand(len(embedded), -1)).logits
        return example.contrast(logits[:, -1])

    figure, axes = plt.subplots(1, 2, figsize=(11, 2.8), layout="constrained", sharey=True)
    for ax, src, pair in zip(axes, example.src, example.pairs, strict=True):
        baseline = torch.where(src == EOS, EOS, UNK)
        inputs, baselines = (encoder.embed_tokens(ids).detach() * encoder.embed_scale for ids in (src, baseline))
        attributed = IntegratedGradients(contrast).attribute(inputs, baselines, n_steps=100, internal_batch_size=50)
        by_piece = attributed.sum(-1)[0]
        with_source, without = (example.contrast(example.logits(ids)[example.step]) for ids in (src, baseline))
        assert_close(by_piece.sum().float(), with_source - without, atol=0.05, rtol=0.01)  # completeness

        ax.bar(range(len(by_piece)), by_piece, color=["tab:blue" if value > 0 else "tab:red" for value in by_piece])
        ax.set_xticks(range(len(by_piece)), map(piece_label, pair.src_pieces), rotation=90, parse_math=False)
        ax.axhline(0, color="black", linewidth=0.5)
        ax.set_title(pair.target, size=10, parse_math=False)
    axes[0].set_ylabel(" − ".join(map(piece_label, example.model.tokenizer.tgt_pieces(example.choices))))
    return figure


def inseq(example: Example) -> Any:
    """Attribution of every piece of the translation to the pieces of the source."""
    import inseq
    import matplotlib.pyplot as plt

    model = inseq.load_model(example.folder, "integrated_gradients", device="cpu")
    model.model.model.decoder.embed_scale = 1.0  # inseq scales the embeddings that it passes to the decoder
    pair = example.pairs[0]
    out = model.attribute(
        pair.source, pair.target, attributed_fn="logit", n_steps=50, step_scores=["probability"], show_progress=False
    )[0]
    by_piece = out.source_attributions.sum(-1)  # S T
    src, predicted = example.src[0], torch.tensor([piece.id for piece in out.target[1:]])[:, None]
    logits, without = example.logits(src), example.logits(torch.where(src == EOS, EOS, UNK))
    assert_close(out.step_scores["probability"], logits.softmax(-1).gather(1, predicted)[:, 0], atol=1e-4, rtol=0)
    difference = (logits - without).gather(1, predicted)[:, 0]
    assert_close(by_piece.sum(0), difference, atol=0.05, rtol=0.01)  # completeness

    figure, ax = plt.subplots(figsize=(6, 4.6), layout="constrained")
    limit = float(by_piece.abs().max())
    rows, columns = ([piece_label(piece) for piece in pieces] for pieces in (pair.tgt_pieces, pair.src_pieces))
    heat_map(ax, by_piece.T, rows, columns, cmap="RdBu", vmin=-limit, vmax=limit)
    return figure


TOOLS: dict[str, Callable[[Example], Any]] = {
    each.__name__: each for each in (transformer_lens, nnsight, captum, inseq)
}


def run_tool(name: str, example: Example, figures: Path | None = None) -> None:
    """Run one tool, and write its figure as ``bridges-NAME.png``.

    Raises:
        HeedError: if the tool is not installed.
        AssertionError: if the tool and heed disagree.
    """
    package = name.replace("_", "-")
    if not find_spec(name):
        raise HeedError(f"{name} is not installed: run `pip install {package}`, see docs/attention.md.")
    figure = TOOLS[name](example)
    versions = ", ".join(f"{each} {version(each)}" for each in (package, "transformers", "torch"))
    print(f"{name}: agrees with heed ({versions})")
    if figures:
        figures.mkdir(parents=True, exist_ok=True)
        figure.savefig(figures / f"bridges-{name}.png", dpi=100)


def main() -> int:
    """Run the tools that are installed.

    Returns:
        The exit status: 2 if a tool that was asked for is not installed, or the sentences do not fit.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run, or its model folder")
    parser.add_argument("--only", choices=TOOLS, help="one tool; otherwise all that are installed")
    parser.add_argument("--export", help="the exported model (RUN/export/huggingface)")
    parser.add_argument("--figures", type=Path, help="write the figures to this folder")
    parser.add_argument("--sentences", nargs=2, default=SENTENCES, help="two sentences of the same length")
    args = parser.parse_args()
    folder = Path(args.export or Path(args.run) / "export" / "huggingface")
    try:
        if not folder.is_dir():
            raise HeedError(f"{folder} does not exist: run `heed export {args.run} --to huggingface`.")
        example = open_example(args.run, str(folder), args.sentences)
        for name in [args.only] if args.only else TOOLS:
            if args.only or find_spec(name):
                run_tool(name, example, args.figures)
            else:
                print(f"{name}: skipped, not installed")
    except HeedError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
