"""Forced words, with real tokenizers and random models of both families."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from heed.data.pairs.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.inference.translator import Translator
from heed.interventions import Edit, force, force_row
from heed.interventions.forcing import named_words
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS, PAD
from tests.tokenizers import train_tokenizer

SOURCE, TARGET = "The tired dog saw the dog.", "Der müde Hund sah den Hund."


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([SOURCE, TARGET, "Two men play.", "Zwei Männer spielen."], vocab_size=45, joint=True)


@pytest.fixture(params=["transformer", "rnn"])
def translator(request: pytest.FixtureRequest, tokenizer: Tokenizer, tiny_model: Callable[..., Seq2Seq]) -> Translator:
    model = tiny_model(request.param, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    for parameter in model.parameters():
        parameter.data.mul_(2)
    return Translator(model, tokenizer, src_lang="en", tgt_lang="de")


def pieces_of(word: str, pieces: list[str], nth: int = 1) -> list[int]:
    """Return the positions of the pieces that spell the nth occurrence of a word."""
    spelt = ["" if piece in ("<s>", "</s>") else piece.replace("▁", " ") for piece in pieces]
    start, stop = [match.span() for match in re.finditer(rf"\b{word}\b", "".join(spelt), re.IGNORECASE)][nth - 1]
    ends = np.cumsum([len(text) for text in spelt])
    return [
        position
        for position, (end, text) in enumerate(zip(ends.tolist(), spelt, strict=True))
        if text.strip() and end - len(text.strip()) < stop and end > start
    ]


@pytest.mark.parametrize("search", [{"beam": 1}, {"beam": 3}])
@pytest.mark.parametrize(("word", "nth"), [("hund", 1), ("Hund#2", 2), ("sah", 1)])
def test_the_row_that_predicts_a_word_is_forced_and_what_is_before_is_kept(
    translator: Translator, search: dict[str, int], word: str, nth: int
) -> None:
    before, after = force(translator, SOURCE, f"cross: {word} -> dog#2", target=TARGET, **search)
    assert (before.source, before.target) == (SOURCE, TARGET)
    rows = pieces_of(word.partition("#")[0].lower(), before.tgt_pieces, nth)
    keys = pieces_of("dog", before.src_pieces, 2)
    assert after.tgt_pieces[: rows[0]] == before.tgt_pieces[: rows[0]]
    expected = np.zeros(len(before.src_pieces))
    expected[keys] = 1 / len(keys)
    assert before.cross is not None
    assert after.cross is not None
    for position, row in enumerate(np.moveaxis(after.cross, 2, 0)):
        assert np.allclose(row, expected) == (position in rows)
    if search["beam"] == 1:
        ids = [translator.tokenizer.processors[1].piece_to_id(piece) for piece in after.tgt_pieces]
        edit = Edit("cross", expected[None, None, None], positions=rows)
        src = torch.tensor([[*translator.tokenizer.encode_src([SOURCE])[0], EOS]])
        with torch.inference_mode():
            memory = translator.model.encode(src, None, edits=[edit])
            logits = translator.model.decode(torch.tensor([[BOS, *ids[:-1]]]), memory, edits=[edit]).logits[0]
            logits[:, [PAD, BOS]] = -torch.inf
        assert ids[rows[0] :] == logits.argmax(1).tolist()[rows[0] :]


def test_an_edit_is_forced_as_an_instruction_is(translator: Translator) -> None:
    before, after = force(translator, SOURCE, "head 1: sah → dog#2", target=TARGET)
    words = {name: force_row("cross", rows, named_words(SOURCE, before.src_pieces)["dog#2"], head=0)
             for name, rows in named_words(TARGET, before.tgt_pieces).items()}  # fmt: skip
    assert {"Der", "Hund", "Hund#2", ".", "</s>"} <= {*words}
    again, found = force(translator, SOURCE, words["sah"], target=TARGET)
    assert again.target == TARGET
    assert (found.target, found.tgt_pieces) == (after.target, after.tgt_pieces)
    assert found.cross is not None
    assert np.array_equal(found.cross, after.cross)


def test_one_layer_one_head_and_the_other_attentions(tokenizer: Tokenizer, tiny_model: Callable[..., Seq2Seq]) -> None:
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    translator = Translator(model, tokenizer)
    before, after = force(translator, SOURCE, "encoder layer 1 head 2: tired → </s>")
    assert before.encoder_self is not None
    assert after.encoder_self is not None
    forced = np.zeros(after.encoder_self.shape[:3], dtype=bool)
    forced[0, 1, pieces_of("tired", before.src_pieces)] = True
    assert ((after.encoder_self[..., -1] == 1) == forced).all()

    before, after = force(translator, SOURCE, ["layer 2: sah → the", "decoder head 5: sah → Hund"], target=TARGET)
    assert after.cross is not None
    assert after.decoder_self is not None
    row = pieces_of("sah", before.tgt_pieces)[0]
    keys = pieces_of("the", before.src_pieces)
    assert np.allclose(after.cross[1, :, row][:, keys], 1 / len(keys))
    assert not np.isclose(after.cross[0, :, row][:, keys].sum(1), 1).any()
    keys = pieces_of("hund", before.read_pieces)
    assert np.allclose(after.decoder_self[:, 4, row][:, keys], 1 / len(keys))


def test_a_repeated_key_counts_once() -> None:
    weights = np.asarray(force_row("cross", [0], [2, 0, 2]).weights)
    np.testing.assert_array_equal(weights, [[[[[0.5, 0, 0.5]]]]])  # "L H B Q K"


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("Hund dog", "'Hund dog' must be like 'cross: es → animal'"),
        ("sideways: Hund → dog", "must be like"),
        ("cross: Katze → dog", f"There is no 'Katze' in the translation '{TARGET}'."),
        ("cross: Hund → Hund", f"There is no 'Hund' in the source '{SOURCE}'."),
        ("cross: Hund#3 → dog", "There is no 'Hund#3' in the translation"),
        ("cross: Hund#0 → dog", "There is no 'Hund#0'"),
        ("cross: Hund → dog#x", "There is no 'dog#x' in the source"),
        ("cross layer 3: Hund → dog", "no such cross attention"),
        ("cross head 0: Hund → dog", "no such cross attention"),
        ("decoder: Hund → Hund", "The decoder reads 'Hund' after it has predicted 'Hund'"),
    ],
)
def test_wrong_instructions_are_refused_in_a_sentence(translator: Translator, instruction: str, message: str) -> None:
    with pytest.raises(HeedError) as refusal:
        force(translator, SOURCE, instruction, target=TARGET)
    assert message in str(refusal.value)


def test_rnns_and_ensembles_refuse_what_they_lack(tokenizer: Tokenizer, tiny_model: Callable[..., Seq2Seq]) -> None:
    model = tiny_model("rnn", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    for of, kind, there in ((model, "encoder", "cross 1 × 1"), (Ensemble([model]), "cross", "none")):
        with pytest.raises(HeedError, match=rf"no such {kind}.* attention \(layers × heads: {there}\)"):
            force(
                Translator(of, tokenizer),
                SOURCE,
                f"{kind}: {'Hund' if kind == 'cross' else 'dog'} → dog",
                target=TARGET,
            )


def test_a_translator_with_edits_leaves_the_model_alone(translator: Translator) -> None:
    edited = translator.with_edits([Edit("cross", "off")])
    lines, targets = [SOURCE, "", "Two men play."], [TARGET, "", "Zwei Männer spielen."]
    plain = translator.score(lines, targets)
    assert edited.score(lines, targets) != pytest.approx(plain)
    assert translator.score(lines, targets) == plain
    assert edited.translate(lines, beam=3)[1] == ""
    (pair,) = edited.attend(SOURCE, TARGET)
    assert pair.cross is not None
    assert (pair.cross == 0).all()
    assert edited.model.config is translator.model.config
