"""Patched heads: what theory says, the page, and ``heed patch``."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from heed.cli import main
from heed.comparison.challenge import ContrastivePair
from heed.data.pairs.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.inference.translator import Translator
from heed.interventions import Edit, patch
from heed.interventions.patching import _log_probs
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer
from heed.report.interventions import patching_page, patching_table
from heed.symbols import BOS, EOS
from tests.finished import FinishedRun
from tests.tokenizers import train_tokenizer

GOOD, BAD = "der Hund schläft weil er müde ist .", "der Hund schläft weil sie müde ist ."
TWINS = [
    ContrastivePair("the dog saw the cat .", GOOD, BAD, "pronoun"),
    ContrastivePair("the cat saw the dog .", BAD, GOOD, "pronoun"),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = [text for twin in TWINS for text in (twin.src, twin.good, twin.bad)]
    return train_tokenizer(lines, vocab_size=60, joint=False)


@pytest.fixture(params=["transformer", "rnn"])
def translator(request: pytest.FixtureRequest, tokenizer: Tokenizer, tiny_model: Callable[..., Seq2Seq]) -> Translator:
    torch.manual_seed(1)
    model = tiny_model(request.param, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    for parameter in model.parameters():
        parameter.data.mul_(2)
    return Translator(model, tokenizer)


def telling_apart(translator: Translator) -> list[ContrastivePair]:
    """Return twins for which the prediction moves to the other word, with the words swapped if needed."""
    try:
        patch(translator, TWINS)
    except HeedError:
        return [replace(twin, good=twin.bad, bad=twin.good) for twin in TWINS]
    return TWINS


def test_the_effect_is_that_of_the_weights_of_the_twin_alone(translator: Translator) -> None:
    twins = telling_apart(translator)
    found = patch(translator, twins)
    ids = {twin.src: [*translator.tokenizer.encode_src([twin.src])[0], EOS] for twin in twins}
    good, bad = translator.tokenizer.encode_tgt([twins[0].good, twins[0].bad])
    first = next(t for t, (one, other) in enumerate(zip(good, bad, strict=False)) if one != other)
    tgt = torch.tensor([[BOS, *good[:first]]])

    def odds(src: str, word: int, other: int, edits: list[Edit]) -> float:
        memory = translator.model.encode(torch.tensor([ids[src]]), None, edits=edits)
        log_p = translator.model.decode(tgt, memory, edits=edits).logits[0, -1].log_softmax(0)
        return float(log_p[other] - log_p[word])

    assert len(found.heads) == sum(1 + layers * heads for layers, heads in translator.model.attention_heads.values())
    for head in found.heads:
        moved, distance = 0.0, 0.0
        for (one, twin), words in zip((twins, twins[::-1]), ((good, bad), (bad, good)), strict=True):
            word, other = (each[first] for each in words)
            with torch.inference_mode():
                source = torch.tensor([ids[twin.src]])
                maps = translator.model.decode(
                    tgt, translator.model.encode(source, None, maps=True), maps=True
                ).attention
                weights = getattr(maps, head.attention)[:, :, 0]
                layers, heads = (None if number is None else [number] for number in (head.layer, head.head))
                before = odds(one.src, word, other, [])
                moved += odds(one.src, word, other, [Edit(head.attention, weights, layers, heads)]) - before
                distance += odds(twin.src, word, other, []) - before
        assert head.restored == pytest.approx(moved / distance, abs=1e-4)
        assert head.interval == pytest.approx((head.restored, head.restored)), "one pair of twins has no spread"
    assert found.best.restored == max(head.restored for head in found.heads if head.layer is not None)


def test_a_sentence_patched_with_its_own_weights_is_unchanged_bit_for_bit(translator: Translator) -> None:
    (src,) = translator.tokenizer.encode_src([TWINS[0].src])
    rows = [[[*src, EOS], [*src, EOS], [BOS, 5, 6], [7, 8]], [[6, EOS], [6, EOS], [BOS], [8, 9]]]
    available = translator.model.attention_heads
    places = [(kind, layer, head) for kind in available for layer, head in ((0, 0), (None, None))]
    with torch.inference_mode():
        own, twin, *patched = _log_probs(translator.model, rows, places)
    for log_p in (twin, *patched):
        assert np.array_equal(log_p, own)


class PositionsInOneHalf(nn.Module):
    """Random positions, in the second half of the states."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = torch.randn(x.shape[1:], generator=torch.Generator().manual_seed(0)) * 9
        table[:, : x.shape[2] // 2] = 0
        return x + table


def keep_values_apart_from_keys(model: Transformer) -> None:
    """Let keys read all of the states, and values the half that depends on the position and not on the word."""
    width = model.config.d_model
    half = width // 2
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    with torch.no_grad():
        for layer in model.encoder:  # the states are the embeddings
            layer.self_attention.sublayer.attention.output.weight.zero_()
            layer.self_attention.sublayer.attention.output.bias.zero_()
            layer.feed_forward.sublayer.down_projection.weight.zero_()
            layer.feed_forward.sublayer.down_projection.bias.zero_()
        model.src_positions = PositionsInOneHalf()
        model.encoder_norm.weight.fill_(1)
        model.encoder_norm.bias.zero_()
        # Words are signs with the same mean and length, so that the norm does not mix the two parts.
        words = torch.tensor([1.0, -1.0]).repeat(half)[:half] * 20
        model.src_embedding.weight.zero_()
        for row in model.src_embedding.weight:
            row[:half] = words[torch.randperm(half)]
        for layer in model.decoder:
            key_value = layer.cross_attention.sublayer.attention.key_value
            key_value.weight[width:, :half] = 0  # values


def test_all_weights_restore_all_where_the_values_are_equal(
    tokenizer: Tokenizer, tiny_model: Callable[..., Seq2Seq]
) -> None:
    """If both sentences have equal values, the decoder sees the source through the weights of cross-attention alone."""
    torch.manual_seed(3)
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    assert isinstance(model, Transformer)
    keep_values_apart_from_keys(model)
    translator = Translator(model, tokenizer)
    found = patch(translator, telling_apart(translator))
    effects = {(head.attention, head.layer): head.restored for head in found.heads if head.head is None}
    assert effects["cross", None] == pytest.approx(1, abs=1e-3)
    assert abs(effects["encoder_self", None]) < 1e-3, "nothing reads the encoder's attention"
    with torch.no_grad():  # every head attends uniformly in both sentences
        for layer in model.decoder:
            attention = layer.cross_attention.sublayer.attention
            attention.query.weight.zero_()
            attention.query.bias.zero_()
            attention.key_value.weight.normal_()
    found = patch(translator, telling_apart(translator))
    assert abs(next(head.restored for head in found.heads if head.attention == "cross")) < 1e-3


def test_twins_that_do_not_correspond_are_left_out(translator: Translator) -> None:
    twins = telling_apart(translator)
    unequal = [twins[0], replace(twins[1], src="the cat saw the dog and the cat .")]
    other_words = [twins[0], replace(twins[1], bad="ein " + twins[1].bad)]
    same = [replace(twin, bad=twin.good) for twin in twins]
    found = patch(translator, [*unequal, *twins, *other_words, *same, twins[0]])
    assert list(found.sentences) == list(twins)
    assert found.example == int((found.best.probability - found.before).argmax())  # the upper median of two
    for wrong in (unequal, other_words, same, twins[:1]):
        with pytest.raises(HeedError, match="no twins"):
            patch(translator, wrong)


def test_other_models_are_refused_in_a_sentence(translator: Translator, tokenizer: Tokenizer) -> None:
    with pytest.raises(HeedError, match="no attention heads"):
        patch(Translator(Ensemble([translator.model]), tokenizer), TWINS)
    swapped = [replace(twin, good=twin.bad, bad=twin.good) for twin in telling_apart(translator)]
    with pytest.raises(HeedError, match="does not tell"):
        patch(translator, swapped)


def test_the_table_and_the_page_show_every_head(translator: Translator) -> None:
    found = {"<b>": patch(translator, telling_apart(translator))}
    lines = patching_table(found).splitlines()
    assert re.fullmatch("phenomenon +attention +layer +head +restored +95 % interval +p.other word.", lines[0])
    assert len(lines) == 1 + len(found["<b>"].heads)
    assert any(re.match(r"<b> +cross +all +all ", line) for line in lines)
    html = patching_page(found, {"model": "m"})
    assert "<b>" not in html
    assert html.count("<td") >= sum(head.layer is not None for head in found["<b>"].heads)
    assert f"{100 * found['<b>'].best.restored:.0f}\u00a0%" in html
    assert TWINS[0].src in html


def test_targets_may_have_unequal_numbers_of_subwords(translator: Translator) -> None:
    first, second = telling_apart(translator)
    longer = replace(second, good=second.good.replace(" müde", " müde müde"))
    found = patch(translator, [first, longer])
    assert len({len(pair.tgt_pieces) for pair in found.attended}) == 2
    for attention in translator.model.attention_heads:
        best = next(head for head in found.heads if head.attention == attention and head.head is not None)
        assert TWINS[0].src in patching_page({"pronoun": replace(found, best=best)}, {"model": "m"})


def test_the_command_reads_a_challenge_set(
    finished: FinishedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    challenge, page = tmp_path / "challenge.jsonl", tmp_path / "page.html"
    texts = "The dog runs.", "The cat runs.", "Der Hund läuft.", "Die Katze läuft."
    for swap in (1, -1):  # a model of four steps: the direction in which it tells the sentences apart is chance
        dog, cat = texts[2:][::swap]
        pairs = [{"src": texts[0], "good": dog, "bad": cat}, {"src": texts[1], "good": cat, "bad": dog}]
        challenge.write_text("\n".join(json.dumps({**pair, "tag": "noun"}) for pair in pairs), encoding="utf-8")
        status = main(
            ["patch", str(finished.folder), "--challenge", str(challenge), "--out", str(page), "--device", "cpu"]
        )
        printed = capsys.readouterr()
        if status == 0:
            break
        assert "does not tell" in printed.err
    lines = printed.out.splitlines()
    assert [line.split()[:4] for line in lines[1:3]] in (
        [["noun", "cross", "all", "all"], ["noun", "cross", "1", "1"]],
        [["noun", "cross", "1", "1"], ["noun", "cross", "all", "all"]],
    )
    assert lines[3] == f"Page: {page}"
    assert "<h2>Noun</h2>" in page.read_text(encoding="utf-8")
    assert main(["patch", str(finished.folder / "model"), "--challenge", "none"]) == 2
    assert "There is no challenge set" in capsys.readouterr().err
