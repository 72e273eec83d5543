"""The Translator with real tokenizers and models of both families."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heed
from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding import BeamSearch, GreedySearch, Hypothesis, NBest
from heed.errors import HeedError
from heed.evaluation.alignment import Extraction, align, to_gold
from heed.evaluation.scores import corpus_scores
from heed.evaluation.symptoms import has_repeats
from heed.inference.engine import Engine
from heed.inference.outputs import Attended, choose_extraction, word_maps
from heed.inference.searches import SearchOptions
from heed.inference.translator import Translator
from heed.models import build_model
from heed.models.seq2seq import AttentionMaps, Seq2Seq
from heed.symbols import BOS, EOS, EOS_PIECE, UNK
from tests.conftest import RNN
from tests.exchange.models import LINES, positions, transformer, write_model
from tests.tokenizers import train_tokenizer

SENTENCES = [
    "a man rides a bike .", "the dog sleeps .", "two children play with a red ball in the park .",
    "a woman reads .", "the man and the woman walk a dog in the rain .", "children play .",
]  # fmt: skip
ModelMaker = Callable[..., Seq2Seq]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(SENTENCES, vocab_size=60, joint=True)


@pytest.fixture(params=["transformer", "rnn"])
def model(request: pytest.FixtureRequest, tokenizer: Tokenizer, tiny_model: ModelMaker) -> Seq2Seq:
    torch.manual_seed(3)
    model = tiny_model(request.param, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


def beam(n_best: int = 1) -> BeamSearch:
    return BeamSearch(beam=3, length_penalty=0.6, n_best=n_best, max_length_factor=1.0, max_length_extra=3)


@pytest.mark.slow
def test_translations_do_not_depend_on_order_and_batches(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    unbatched = [Translator(model, tokenizer, beam(), batch_tokens=1).translate([line])[0] for line in SENTENCES]
    assert len(set(unbatched)) > 2
    for batch_tokens in (1, 17, 40, 10_000):
        translator = Translator(model, tokenizer, beam(), batch_tokens=batch_tokens)
        assert translator.translate(SENTENCES) == unbatched
        assert translator.translate(SENTENCES[::-1]) == unbatched[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 2, 4, 100])
def test_stream_keeps_order_and_reads_one_chunk_ahead(model: Seq2Seq, tokenizer: Tokenizer, chunk: int) -> None:
    translator = Translator(model, tokenizer, beam(), batch_tokens=30)
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for line in SENTENCES:
            read += 1
            yield line

    stream = translator.stream_hypotheses(lines(), chunk=chunk)
    assert read == 0
    first = next(stream)
    assert read == min(chunk, len(SENTENCES))
    assert [best.text for best, *_ in [first, *stream]] == translator.translate(SENTENCES)


def test_empty_lines_stay_empty_and_in_place(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    translator = Translator(model, tokenizer, beam(), batch_tokens=100)
    one, two = translator.translate(SENTENCES[:2])
    assert translator.translate(["", SENTENCES[0], "   ", SENTENCES[1], ""]) == ["", one, "", two, ""]
    assert translator.translate([]) == []
    assert translator.translate(["", "\u3000", "\u00a0\t", "\u2003 \u3000"]) == [""] * 4


OTHER_SPACES = [char for char in map(chr, range(0x10000)) if char.isspace() and char != " "]


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_white_space_without_a_piece_is_a_space(tiny_model: ModelMaker, byte_fallback: bool) -> None:
    known = "\u00a0"
    lines = [*SENTENCES, f"a{known}dog"]
    settings = {"byte_fallback": byte_fallback, "normalization_rule_name": "identity", "character_coverage": 1.0}
    tokenizer = train_tokenizer(lines, vocab_size=60 + 256 * byte_fallback, joint=True, **settings)
    model = tiny_model("rnn", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    translator = Translator(model, tokenizer, beam())
    raw = translator.without_fallbacks()
    (plain,) = translator.encode(["the dog sleeps ."])
    assert len(OTHER_SPACES) > 20
    for space in OTHER_SPACES:
        line = f"the{space}dog  sleeps{space} .{space}"
        unchanged = tokenizer.encode_src([line])
        assert translator.encode([line]) == (unchanged if space == known else [plain]), repr(space)
        assert raw.encode([line]) == unchanged != [plain]
    line = "the\u3000dog sleeps ."
    ((found,),) = translator.hypotheses(line, alignments=True)
    ((expected,),) = translator.hypotheses("the dog sleeps .")
    assert (found.text, found.score) == (expected.text, expected.score)
    assert translator.attend(line)[0].src_pieces == translator.attend("the dog sleeps .")[0].src_pieces
    # Scores of given pairs are those of the lines as they are.
    assert translator.score(line, "a dog") == raw.score(line, "a dog") != translator.score("the dog sleeps .", "a dog")


def test_a_single_string_is_one_sentence(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    translator = Translator(model, tokenizer, beam(), batch_tokens=100)
    sentence = SENTENCES[0]
    assert translator.translate(sentence) == translator.translate([sentence])
    assert [best.text for best, *_ in translator.stream_hypotheses(sentence, chunk=3)] == translator.translate(
        [sentence]
    )
    assert translator.score(sentence, SENTENCES[1]) == translator.score([sentence], [SENTENCES[1]])
    (pair,) = translator.attend(sentence, SENTENCES[1])
    assert (pair.source, pair.target) == (sentence, SENTENCES[1])


@pytest.mark.parametrize(
    ("line", "message"), [("caf\udce9", "is not Unicode text"), ("a dog . " * 30, "subwords, and the limit is 30")]
)
def test_surrogates_and_long_lines_are_refused_with_their_line_number(
    model: Seq2Seq, tokenizer: Tokenizer, line: str, message: str
) -> None:
    translator = Translator(model, tokenizer, beam(), batch_tokens=100, max_tokens=30)
    with pytest.raises(HeedError, match=f"Line 2 .*{message}"):
        translator.translate([SENTENCES[1], line])
    with pytest.raises(HeedError, match=f"Line 2 .*{message}"):
        translator.score(["a", "b"], ["c", line])


def test_n_best_is_sorted_best_first(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    translator = Translator(model, tokenizer, {"beam": 3})
    best = translator.hypotheses(SENTENCES)
    for n_best, [first] in zip(translator.hypotheses(SENTENCES, n=3), best, strict=True):
        assert len(n_best) == 3
        assert n_best[0] == first
        scores = [translation.score for translation in n_best if translation.finished]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("training", [True, False])
def test_runs_in_eval_mode_and_restores_the_mode(model: Seq2Seq, tokenizer: Tokenizer, training: bool) -> None:
    translator = Translator(model, tokenizer, beam(), batch_tokens=100)
    expected = translator.translate(SENTENCES)
    model.train(training)
    assert translator.translate(SENTENCES) == expected  # dropout would change them
    assert model.training is training
    with pytest.raises((RuntimeError, IndexError)):
        translator.translate_ids([[10**6]])
    assert model.training is training


def test_runs_without_autocast(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    translator = Translator(model.float(), tokenizer, beam(), batch_tokens=100)
    ids = tokenizer.encode_src(SENTENCES)
    expected = translator.translate_ids(ids)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert translator.translate_ids(ids) == expected


@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
def test_score_is_the_sum_of_token_log_probabilities(model: Seq2Seq, tokenizer: Tokenizer, batch_tokens: int) -> None:
    sources, targets = [*SENTENCES, ""], [*SENTENCES[::-1], "a dog"]
    expected = []
    for source, target in zip(sources, targets, strict=True):
        (src,), (tgt,) = tokenizer.encode_src([source]), tokenizer.encode_tgt([target])
        src_ids = torch.tensor([[*src, EOS]])
        with torch.no_grad():
            log_probs = model(src_ids, torch.ones_like(src_ids, dtype=torch.bool), torch.tensor([[BOS, *tgt]]))[0]
        log_probs = log_probs.log_softmax(1)
        expected.append(sum(float(row[token]) for row, token in zip(log_probs, [*tgt, EOS], strict=True)))
    translator = Translator(model, tokenizer, beam(), batch_tokens=batch_tokens)
    assert translator.score(sources, targets) == pytest.approx(expected, abs=1e-9)


def test_line_that_the_model_refuses_is_named(tokenizer: Tokenizer) -> None:
    config = transformer(positions=positions("learned", "add", 12))
    model = build_model(config, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=True)
    greedy = GreedySearch(max_length_factor=0.0, max_length_extra=3)
    translator = Translator(model, tokenizer, greedy, batch_tokens=1000)
    lines = ["dog .", "man .", "a man rides a bike in the rain and the park .", "dog"]
    with pytest.raises(HeedError, match=r"Line 3: A sentence of \d+ tokens"):
        translator.translate(lines)
    with pytest.raises(HeedError, match="Line 3: A sentence"):
        list(translator.stream_hypotheses(lines, chunk=2))
    with pytest.raises(HeedError, match="Line 3: A sentence"):
        translator.score(lines, ["dog"] * 4)


def unbatched_maps(model: Seq2Seq, src: list[int], tgt: list[int]) -> AttentionMaps:
    """Return the model's maps for one sentence pair (ids without EOS)."""
    src_ids = torch.tensor([[*src, EOS]])
    with torch.no_grad():
        memory = model.encode(src_ids, torch.ones_like(src_ids, dtype=torch.bool), maps=True)
        maps = model.decode(torch.tensor([[BOS, *tgt]]), memory, maps=True).attention
    assert maps is not None
    return maps


@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
def test_attend_given_translations(model: Seq2Seq, tokenizer: Tokenizer, batch_tokens: int) -> None:
    sources, targets = [*SENTENCES, ""], [*SENTENCES[::-1], "a dog"]
    model.train()
    pairs = Translator(model, tokenizer, beam(), batch_tokens=batch_tokens).attend(sources, targets)
    assert model.training
    model.eval()
    assert [(pair.source, pair.target) for pair in pairs] == list(zip(sources, targets, strict=True))
    for pair in pairs:
        (src,), (tgt,) = tokenizer.encode_src([pair.source]), tokenizer.encode_tgt([pair.target])
        assert "".join(pair.src_pieces) == "".join([*tokenizer.src_pieces(src), "</s>"])
        assert "".join(pair.tgt_pieces) == "".join([*tokenizer.tgt_pieces(tgt), "</s>"])
        assert pair.read_pieces == ["<s>", *tokenizer.tgt_pieces(tgt)]
        maps = unbatched_maps(model, src, tgt)
        for name in ("cross", "encoder_self", "decoder_self"):
            expected, found = getattr(maps, name), getattr(pair, name)
            if expected is None:
                assert found is None
            else:
                np.testing.assert_allclose(found, expected[:, :, 0], atol=1e-6)
        assert pair.cross is not None
        np.testing.assert_allclose(pair.cross.sum(-1), 1, atol=1e-5)
        if pair.decoder_self is not None:
            assert not np.triu(pair.decoder_self, k=1).any()
    if model.config.family == "rnn":
        assert pairs[0].cross is not None
        assert pairs[0].cross.shape[:2] == (1, 1)
        assert pairs[0].encoder_self is pairs[0].decoder_self is None


@pytest.mark.slow
def test_attend_own_translations(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    greedy = GreedySearch(max_length_factor=1.0, max_length_extra=0)
    translator = Translator(model, tokenizer, greedy, batch_tokens=40)
    unfinished = 0
    for line, pair in zip([*SENTENCES, ""], translator.attend([*SENTENCES, ""]), strict=True):
        (src,) = tokenizer.encode_src([line])
        ((best,),) = translator.translate_ids([src])
        assert (pair.source, pair.target) == (line, translator.translate([line])[0])
        # A translation that reached the length limit has no EOS.
        unfinished += not best.finished
        assert pair.tgt_pieces == tokenizer.tgt_pieces([*best.tokens, EOS] if best.finished else best.tokens)
        assert pair.cross is not None
        maps = unbatched_maps(model, src, best.tokens)
        np.testing.assert_allclose(pair.cross, maps.cross[:, :, 0, : len(pair.tgt_pieces)], atol=1e-6)
    assert unfinished


def test_attend_without_attention(tokenizer: Tokenizer) -> None:
    none = replace(RNN.attention, score="none", order="luong", input_feeding=False, coverage=False)
    config = replace(RNN, cell="gru", attention=none)
    model = build_model(config, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=True)
    (pair,) = Translator(model, tokenizer, beam(), batch_tokens=40).attend(["a dog"], ["a man"])
    assert pair.cross is pair.encoder_self is pair.decoder_self is None
    assert pair.src_pieces[-1] == pair.tgt_pieces[-1] == "</s>"


def test_invalid_arguments_are_refused(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    translator = Translator(model, tokenizer, beam(), batch_tokens=10)
    for message, call in (
        ("batch_tokens=0", lambda: Translator(model, tokenizer, beam(), batch_tokens=0)),
        ("2 sources and 1 targets", lambda: translator.score(["a", "b"], ["a"])),
        ("2 sources and 1 targets", lambda: translator.attend(["a", "b"], ["a"])),
        ("n and beam cannot change", lambda: translator.hypotheses(SENTENCES, beam=2, n=2)),
        ("length_penalty cannot change", lambda: translator.translate(SENTENCES, length_penalty=0.0)),
        # before a line is read
        ("chunk=0 must be at least 1", lambda: translator.stream_hypotheses(iter(()), chunk=0)),
        (
            "top_k applies to sampling only",
            lambda: Translator(model, tokenizer).stream_hypotheses(iter(()), chunk=1, top_k=3),
        ),
    ):
        with pytest.raises(HeedError, match=message):
            call()


def test_hypotheses_have_the_alignments_of_their_attention_maps(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    translator = Translator(model, tokenizer, {"beam": 3})
    plain = translator.hypotheses(SENTENCES)
    assert [best.text for (best,) in plain] == translator.translate(SENTENCES)
    assert {best.alignment for (best,) in plain} == {None}
    found = translator.hypotheses(SENTENCES, n=2, alignments=True)
    tokens = translator.translate_ids(translator.encode(SENTENCES), search=translator.changed_search(2))
    for source, own, own_tokens in zip(SENTENCES, found, tokens, strict=True):
        (src,) = tokenizer.encode_src([source])
        assert len(own) == 2
        for each, hypothesis in zip(own, own_tokens, strict=True):
            ids = [*hypothesis.tokens, EOS] if each.finished else hypothesis.tokens
            pieces = tokenizer.src_pieces([*src, EOS]), tokenizer.tgt_pieces(ids)
            cross = unbatched_maps(model, src, hypothesis.tokens).cross
            assert cross is not None
            pair = Attended(source, each.text, *pieces, cross[:, :, 0, : len(ids)].numpy(), None, None)
            extraction = choose_extraction(None, pair)
            assert extraction == Extraction(layer=max(1, len(cross) - 1), head=None, row="output")
            assert each.alignment == sorted(to_gold(align(word_maps(pair)[extraction.index], "target")).sure)


@pytest.mark.parametrize("method", [Translator.translate, Translator.hypotheses, Translator.attend])
def test_n_best_is_no_option_of_a_method(model: Seq2Seq, tokenizer: Tokenizer, method: Callable[..., object]) -> None:
    with pytest.raises(
        HeedError, match=r"n_best is not an option of this method: hypotheses\(sentences, n=3\) returns"
    ):
        method(Translator(model, tokenizer), SENTENCES, n_best=3)


@pytest.mark.slow
def test_search_options_apply_to_one_call(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    translator = Translator(model, tokenizer, {"beam": 4, "length_penalty": 0.0})
    greedy = Translator(model, tokenizer, {"beam": 1, "length_penalty": 0.0}).translate(SENTENCES)
    before = translator.translate(SENTENCES)
    assert translator.translate(SENTENCES, beam=1) == greedy
    assert [pair.target for pair in translator.attend(SENTENCES, beam=1)] == greedy
    assert translator.translate(SENTENCES) == before
    samples = translator.translate(SENTENCES, sample=True, seed=3)
    assert samples == translator.translate(SENTENCES, sample=True, seed=3)
    assert samples != translator.translate(SENTENCES, sample=True, seed=4)


def test_align_uses_the_saved_map_unless_another_is_chosen(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    heads = model.config.num_heads if hasattr(model.config, "num_heads") else 1
    layers = getattr(model.config, "decoder_layers", 1)
    saved = {"layer": layers, "head": heads, "row": "input"}
    translator, plain = Translator(model, tokenizer, alignment=saved), Translator(model, tokenizer)
    sources, targets = ["a man rides", "the dog sleeps in the park", ""], ["the dog", "a man", ""]
    links = translator.align(sources, targets)
    assert links == plain.align(sources, targets, layer=layers, head=heads, row="input")
    for source, target, pairs in zip(sources, targets, links, strict=True):
        assert pairs == sorted(set(pairs))
        assert all(i < len(source.split()) and j < len(target.split()) for i, j in pairs)
    assert links[0]
    assert links[2] == []
    with pytest.raises(HeedError, match=f"layer={layers + 1} head=0: this model's decoder has layers 1 to {layers}"):
        plain.align(sources, targets, layer=layers + 1)
    with pytest.raises(HeedError, match=r"or correct the alignment section of its config\.yaml"):
        Translator(model, tokenizer, alignment={**saved, "layer": layers + 1}).align(sources, targets)
    with pytest.raises(HeedError, match="symmetrize=best is unknown: choose one of target"):
        plain.align(sources, targets, symmetrize="best")


@pytest.mark.slow
def test_evaluate_scores_its_own_translations(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    translator = Translator(model, tokenizer, {"beam": 2}, tgt_lang="zh")
    references = [f"{line} x" for line in translator.translate(SENTENCES)]
    assert translator.evaluate(SENTENCES, references) == corpus_scores(
        translator.translate(SENTENCES), references, tgt_lang="zh"
    )
    assert "tok:zh" in translator.evaluate(SENTENCES, references).bleu_signature
    assert translator.evaluate(SENTENCES[0], references[0]) == translator.evaluate(SENTENCES[:1], references[:1])
    with pytest.raises(HeedError, match="are not pairs"):
        translator.evaluate(SENTENCES, references[1:])


# ---- lines that would be lost


@pytest.fixture(scope="module")
def empty_first(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """A translator that prefers empty translations."""
    return heed.load(write_model(tmp_path_factory.mktemp("empty") / "model", transformer(), seed=14), device="cpu")


def test_a_line_without_letters_is_its_own_translation(empty_first: Translator) -> None:
    lines = ["5", "1,000,000", " 20:15 ", "?!", "🙂 🙂", "…", "½ €", "\u200b"]
    assert empty_first.translate(lines) == lines
    found = empty_first.hypotheses([lines[0], LINES[0]], n=2, alignments=True)
    assert [(each.text, each.score, each.finished, each.symptoms) for each in found[0]] == [("5", 0.0, True, ())]
    assert found[0][0].alignment is not None
    (pair,) = empty_first.attend("5")
    tokenizer = empty_first.tokenizer
    assert pair.tgt_pieces == [*tokenizer.tgt_pieces(tokenizer.encode_tgt(["5"])[0]), "</s>"]
    assert len(found[1]) == 2
    assert empty_first.without_fallbacks().translate(lines) != lines


def test_a_model_of_numbers_translates_numbers(tiny_model: ModelMaker) -> None:
    tokenizer = train_tokenizer(["1 2 3 + = 4", "5 6 7 8 9 0"] * 3, vocab_size=24, joint=True)
    model = tiny_model("rnn", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    translator = Translator(model, tokenizer, beam())
    lines = ["1 + 2", "3 4"]
    assert translator.translate(lines) == translator.without_fallbacks().translate(lines) != lines


@pytest.mark.parametrize("n_best", [1, 2])
@pytest.mark.parametrize("search", [{}, {"length_penalty": 0.0}])
def test_the_best_hypotheses_with_text_are_chosen(empty_first: Translator, search: SearchOptions, n_best: int) -> None:
    every = empty_first.without_fallbacks().hypotheses(LINES, n=5, **search)
    found = empty_first.hypotheses(LINES, n=n_best, **search)
    for own, all_own in zip(found, every, strict=True):
        assert all_own[0].text == ""
        assert [each.text for each in own] == [each.text for each in all_own if each.text][:n_best]
        assert all("second choice" in each.symptoms for each in own)


def test_minimum_bayes_risk_decoding_has_a_second_choice(empty_first: Translator) -> None:
    search: SearchOptions = {"mbr": True, "beam": 5, "samples": 1, "seed": 3}
    every = empty_first.without_fallbacks().hypotheses(LINES, n=6, **search)
    assert "" in {own[0].text for own in every}
    assert empty_first.translate(LINES, **search) == [next(each.text for each in own if each.text) for own in every]


def test_attention_is_shown_for_the_chosen_translation(empty_first: Translator) -> None:
    assert [each.target for each in empty_first.attend(LINES)] == empty_first.translate(LINES)


def test_scores_are_those_of_the_search(empty_first: Translator) -> None:
    translations = empty_first.without_fallbacks().translate(LINES)
    assert set(translations) == {""}
    assert empty_first.evaluate(LINES, LINES).bleu == corpus_scores(translations, LINES, tgt_lang="de").bleu == 0


def test_a_search_of_one_hypothesis_may_end_empty(tmp_path: Path) -> None:
    translator = heed.load(write_model(tmp_path / "model", transformer(), seed=23), device="cpu")
    ((found,),) = translator.hypotheses("dog", beam=1)
    assert (found.text, found.symptoms) == ("", ("empty",))


def test_symptoms_of_translations(model: Seq2Seq, tokenizer: Tokenizer) -> None:
    translator = Translator(model, tokenizer, {"beam": 2, "max_length_factor": 0.0, "max_length_extra": 40})
    found = [each for n_best in translator.hypotheses(SENTENCES, n=2) for each in n_best]
    assert any(each.symptoms for each in found)
    for each in found:
        assert ("cut off" in each.symptoms) == (not each.finished)
        assert ("repeats" in each.symptoms) == has_repeats(each.text)
        assert ("unknown pieces" in each.symptoms) == ("⁇" in each.text)


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"sample": True}, {"mbr": True, "samples": 3}], ids=str)
def test_log_p_of_pieces(model: Seq2Seq, tokenizer: Tokenizer, options: SearchOptions) -> None:
    translator = Translator(model, tokenizer)
    lines = [*SENTENCES, "12", ""]
    for line, n_best in zip(lines, translator.hypotheses(lines, **options), strict=True):
        for each in n_best:
            assert len(each.pieces) == 0 or each.log_prob == pytest.approx(sum(p for _, p in each.pieces), abs=1e-9)
            assert bool(each.pieces) == any(map(str.isalpha, line))
            ids = [*map(tokenizer.processors[1].piece_to_id, (piece for piece, _ in each.pieces))]
            assert tokenizer.decode_tgt([ids]) == [each.text] or not each.pieces
            assert (EOS in ids) == each.finished or not each.pieces
            if each.pieces and "⁇" not in each.text:
                assert " ".join(word for word, _ in each.words) == " ".join(each.text.split())
            end = sum(log_prob for piece, log_prob in each.pieces if piece == EOS_PIECE)
            assert not each.words or each.log_prob == pytest.approx(sum(p for _, p in each.words) + end, abs=1e-9)
            for place in range(1, len(ids) + 1):  # each is that of teacher forcing
                source = [[*translator.encode([line])[0], EOS]]
                shorter = translator.score_ids(source, [ids[:place]])[0]
                assert shorter == pytest.approx(sum(p for _, p in each.pieces[:place]), abs=1e-9)


def test_an_unknown_word_of_a_vocabulary_of_words_is_a_word() -> None:
    tokenizer = train_tokenizer(["the dog", "the cat"], vocab_size=7, joint=True, model_type="word")
    log_probs = (-1.0, -0.5, -0.25, -2.0, -0.125)
    found = Hypothesis([4, UNK, UNK, 6], sum(log_probs), 0.0, finished=True, token_log_probs=log_probs)

    class Found(Engine):
        def search(self, *_: Any) -> list[NBest]:
            return [[found]]

    ((translation,),) = Translator(Found(), tokenizer).hypotheses("the dog")
    assert [piece for piece, _ in translation.pieces] == ["▁the", "▁<unk>", "▁<unk>", "▁dog", "</s>"]
    assert translation.words == [("the", -1.0), ("<unk>", -0.5), ("<unk>", -0.25), ("dog", -2.0)]
