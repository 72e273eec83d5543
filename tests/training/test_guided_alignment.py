"""Guided alignment: its targets against gold links of subwords, its loss, and what a head learns from it."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import heed
from heed.data.pairs.pairs import Pairs, encode
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch, collate
from heed.data.text.source import Sentences
from heed.errors import HeedError
from heed.evaluation.alignment import link_pieces, parse_pharaoh
from heed.evaluation.words import split_words, word_shares
from heed.symbols import PLACEHOLDERS
from heed.training.guided_alignment import GuidedAlignment
from tests.data.texts import NO_RULES, only_text, train_tokenizer, training_text, write_lines

PLACEHOLDER = re.compile(f"[{''.join(PLACEHOLDERS)}]")
WORDS = ("dog", "garden", "understanding", "of", "unbelievable", "rivers", "a", "elephant")


def swapped_words(pairs: int) -> tuple[Sentences, list[str]]:
    """Pairs whose target is the source's words in upper case, the first two swapped; and their alignments."""
    rng = random.Random(1)
    sources = [rng.sample(WORDS, rng.randint(2, 6)) for _ in range(pairs)]
    targets = [[word.upper() for word in (words[1], words[0], *words[2:])] for words in sources]
    links = [" ".join(f"{1 - j if j < 2 else j}-{j}" for j in range(len(words))) for words in sources]
    return Sentences([*map(" ".join, sources)], [*map(" ".join, targets)]), links


@pytest.fixture
def text() -> tuple[Sentences, list[str]]:
    return swapped_words(200)


@pytest.fixture
def tokenizer(text: tuple[Sentences, list[str]], tmp_path: Path) -> Tokenizer:
    return train_tokenizer(text[0], tmp_path, vocab_size=310)


def guide(file: Path, text: Sentences, tokenizer: Tokenizer, **options: Any) -> tuple[GuidedAlignment, Pairs]:
    """Return the guide of a model with three decoder layers, and the training pairs."""
    cleaned = training_text(text, file.parent / "cache", **options)
    stored = encode(cleaned, tokenizer)
    (batch,) = stored.batches
    rows = np.arange(len(stored))
    return GuidedAlignment(file, only_text(cleaned), tokenizer, {"cross": (3, 2)}, reverse=False), Pairs(
        rows, batch["src"], batch["tgt"]
    )


@pytest.mark.parametrize("rules", [NO_RULES, NO_RULES | {"drop_duplicates": True, "max_chars": 30}])
def test_targets_are_the_links_of_subwords(
    rules: dict[str, Any], text: tuple[Sentences, list[str]], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    pairs, links = text
    links[3], links[5] = "", links[5].replace("-", "?", 1)  # a pair without links, and a possible link
    write_lines(tmp_path, links_txt=links)
    guided, stored = guide(tmp_path / "links.txt", pairs, tokenizer, rules=rules, at_most=90)
    assert len(stored) == 90
    batch = collate(np.arange(90), stored)
    targets = guided.targets(batch)
    of_pair = dict(zip(zip(pairs.src, pairs.tgt, strict=True), links, strict=True))
    for row in range(90):
        src_ids, tgt_ids = stored.src[row].as_py(), stored.tgt[row].as_py()
        lines = tokenizer.decode_src([src_ids])[0], tokenizer.decode_tgt([tgt_ids])[0]
        words = [split_words(line) for line in lines]
        (gold,) = parse_pharaoh(
            [of_pair[lines]], [(len(words[0]), len(words[1]))], name="", first_index=0, drop_outside=False
        )
        shares = [
            word_shares(pieces, line)
            for pieces, line in zip((tokenizer.src_pieces(src_ids), tokenizer.tgt_pieces(tgt_ids)), words, strict=True)
        ]
        expected = link_pieces(gold, *shares).astype(np.float32)
        expected /= expected.sum(1, keepdims=True).clip(1)
        inside = targets[row, : len(tgt_ids), : len(src_ids)]
        assert torch.equal(inside, torch.from_numpy(expected))
        assert targets[row].count_nonzero() == inside.count_nonzero()


def test_pairs_with_placeholders_have_no_targets(text: tuple[Sentences, list[str]], tmp_path: Path) -> None:
    """The words of a span that touches a letter get numbers of their own, so that those behind it have other ones."""
    plain, links = text
    pairs = Sentences([f"Tom{{x}}{src}" for src in plain.src], [f"Tom{{x}}{tgt}" for tgt in plain.tgt])
    tokenizer = train_tokenizer(pairs, tmp_path, vocab_size=330, placeholders=True)
    write_lines(tmp_path, links_txt=links)
    guided, stored = guide(tmp_path / "links.txt", pairs, tokenizer)
    batch = collate(np.arange(len(stored)), stored)
    has_targets = guided.targets(batch).sum((1, 2)) > 0
    masked = [PLACEHOLDER.search(line) for line in tokenizer.decode_tgt(stored.tgt.to_pylist())]
    assert has_targets.tolist() == [found is None for found in masked]
    assert 0 < sum(map(bool, masked)) < len(masked)


def guide_three(
    text: tuple[Sentences, list[str]], tokenizer: Tokenizer, folder: Path
) -> tuple[GuidedAlignment, Batch, Tensor]:
    """Guidance by the links of a text, a batch of three of its pairs, and the targets of the batch."""
    pairs, links = text
    write_lines(folder, links_txt=links)
    guided, stored = guide(folder / "links.txt", pairs, tokenizer)
    batch = collate(np.array([4, 0, 7]), stored)
    return guided, batch, guided.targets(batch)


def test_the_loss_is_the_cross_entropy_of_the_chosen_head(
    text: tuple[Sentences, list[str]], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    guided, batch, targets = guide_three(text, tokenizer, tmp_path)
    assert (guided.extraction.layer, guided.extraction.head, guided.extraction.row) == (2, 1, "output")
    logits = torch.randn(3, 2, 6, *targets.shape[1:], dtype=torch.float64)
    twice = targets.repeat_interleave(2, 0)  # as with R-Drop
    expected = -(twice * logits[1, 0].log_softmax(-1)).sum() / 2
    assert guided.loss(logits.softmax(-1), batch).item() == pytest.approx(expected.item(), rel=1e-5)
    # A head that follows the links has the least loss: the entropy of the targets.
    entropy = torch.special.entr(targets).sum()
    exact = targets.expand(3, 2, *targets.shape)
    assert guided.loss(exact, batch).item() == pytest.approx(entropy.item(), rel=1e-5)


def test_weights_outside_a_window_are_no_part_of_the_loss(
    text: tuple[Sentences, list[str]], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    guided, batch, targets = guide_three(text, tokenizer, tmp_path)
    tgt, src = targets.shape[1:]
    near = (torch.arange(tgt)[:, None] - torch.arange(src)).abs() <= 1
    assert (targets * ~near).sum() > 0
    assert (targets * near).sum() > 0
    scores = torch.randn(3, 2, *targets.shape, dtype=torch.float64, requires_grad=True)
    loss = guided.loss(scores.masked_fill(~near, -torch.inf).softmax(-1), batch)
    (gradient,) = torch.autograd.grad(loss, scores)
    logs = scores[1, 0].masked_fill(~near, -torch.inf).log_softmax(-1)
    expected = -(targets * logs.masked_fill(~near, 0.0)).sum()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    (same,) = torch.autograd.grad(expected, scores)
    torch.testing.assert_close(gradient, same, rtol=1e-4, atol=1e-5)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["0-0"] * 199, r"links\.txt has 199 lines for 200 training pairs: "),
        (["0-0"] * 3 + ["0:0"], r"links\.txt, line 4: '0:0' is not a link such as 0-0\.$"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    lines: list[str], why: str, text: tuple[Sentences, list[str]], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    write_lines(tmp_path, links_txt=lines)
    with pytest.raises(HeedError, match=why):
        guide(tmp_path / "links.txt", text[0], tokenizer)


def test_what_cannot_be_guided_is_refused(
    text: tuple[Sentences, list[str]], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    write_lines(tmp_path, links_txt=text[1])
    file = tmp_path / "links.txt"
    train = only_text(training_text(text[0], tmp_path))
    with pytest.raises(HeedError, match="a single training text of one direction"):
        GuidedAlignment(file, replace(train, both_directions=True), tokenizer, {"cross": (3, 2)}, reverse=False)
    with pytest.raises(HeedError, match="a model with cross-attention"):
        GuidedAlignment(file, train, tokenizer, {}, reverse=False)


@pytest.mark.parametrize("family", ["transformer", pytest.param("rnn", marks=pytest.mark.full)])
def test_a_guided_head_aligns(
    family: str, run: Callable[..., Path], tmp_path: Path, text: tuple[Sentences, list[str]]
) -> None:
    pairs, links = text
    write_lines(tmp_path, train_en=pairs.src[20:], train_de=pairs.tgt[20:], links_txt=links[20:])
    write_lines(tmp_path, val_en=pairs.src[:20], val_de=pairs.tgt[:20])
    sizes = {
        "transformer": ["model=transformer_tiny", "model.d_model=32", "model.num_heads=2", "model.norm=pre"],
        "rnn": ["model=rnn", "model.d_model=32", "model.d_embedding=16"],
    }
    train, valid = (f"[[{tmp_path}/{name}.en,{tmp_path}/{name}.de]]" for name in ("train", "val"))
    common = [
        "data=files", f"data.train={train}", f"data.valid={valid}", f"data.test={valid}", "tokenizer.vocab_size=310",
        "data.cleaning.drop_leaked=false", *sizes[family], "batching.batch_tokens=300", "optimizer=adamw",
        "optimizer.lr=0.005", "schedule=constant", "trainer.max_steps=120", "trainer.validate_every=120",
        "trainer.precision=32",
    ]  # fmt: skip
    guide = [f"module.guided_alignment={tmp_path}/links.txt", "module.guided_alignment_weight=1"]
    model = heed.load(run("guided", *common, *guide), device="cpu")
    found = model.align(pairs.src[:20], pairs.tgt[:20])
    golds = [{tuple(map(int, link.split("-"))) for link in line.split()} for line in links[:20]]
    wrong = sum(len(gold ^ set(own)) for gold, own in zip(golds, found, strict=True))
    # With a weight of 0, there are more wrong and missing links than links.
    assert wrong < 0.5 * sum(map(len, golds))
