"""Words, and attention over pieces pooled to words; the reference are the offsets of real SentencePiece tokenizers."""

import numpy as np
import pytest
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.evaluation.words import casefolded_words, pool, split_words, word_shares
from tests.tokenizers import train_tokenizer

TEXT = [
    "The animal didn't cross the street because it was too tired.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.", "größere Häuser, schöne Gärten, Ufer und Bänke",
    "老师在学校里教中文。学生学习很努力。", "the old man and the sea",
]  # fmt: skip


BYTES = train_tokenizer(
    TEXT, vocab_size=400, joint=True, hard_vocab_limit=False, byte_fallback=True, character_coverage=0.98,
    normalization_rule_name="identity",
).processors[0]  # fmt: skip
NORMALIZED = train_tokenizer(
    TEXT, vocab_size=150, joint=True, hard_vocab_limit=False, model_type="unigram", normalization_rule_name="nmt_nfkc"
).processors[0]

WORDS = st.lists(
    st.one_of(
        st.sampled_from([word for line in TEXT for word in line.split()]),
        st.text(alphabet="abcdeßäöü老中文.,€😀é", min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=8,
)


def pieces_of(processor: spm.SentencePieceProcessor, text: str) -> list[str]:
    return [*(processor.id_to_piece(token) for token in processor.encode(text)), "</s>"]


def by_offsets(processor: spm.SentencePieceProcessor, text: str, spans: list[tuple[int, int]]) -> np.ndarray:
    """Compute word shares from SentencePiece's offsets into the UTF-8 text; words are spans of the text."""
    rows = []
    for piece in processor.encode(text, return_type="proto").pieces:
        # All bytes of a character but the last have an empty span at its start.
        stop = max(piece.end, piece.begin + 1)
        row = [max(0, min(end, stop) - max(begin, piece.begin)) for begin, end in spans]
        if piece.piece == "▁":
            row = [0] * len(spans)
        rows.append(np.array(row) / max(sum(row), 1))
    return np.array([*rows, np.zeros(len(spans))])


@settings(max_examples=150, deadline=None)
@given(words=WORDS, spaces=st.booleans())
def test_word_shares_equal_the_offsets_of_the_tokenizer(words: list[str], spaces: bool) -> None:
    gap = " " if spaces else ""
    starts = np.cumsum([0, *(len((word + gap).encode()) for word in words[:-1])])
    spans = [(int(start), int(start) + len(word.encode())) for start, word in zip(starts, words, strict=True)]
    text = gap.join(words)
    shares = word_shares(pieces_of(BYTES, text), words)
    np.testing.assert_allclose(shares, by_offsets(BYTES, text, spans), atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(words=WORDS, seed=st.integers(0, 2**32 - 1))
def test_pooling_keeps_the_attention_on_words(words: list[str], seed: int) -> None:
    shares = word_shares(pieces_of(BYTES, " ".join(words)), words)
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(shares)), size=(2, 3, len(shares)))
    pooled = pool(weights, shares, shares)
    assert pooled.shape == (2, 3, len(words), len(words))
    on_any_word = shares.sum(1)
    on_words = (weights * on_any_word).sum(-1)
    expected = np.stack([np.average(on_words, axis=-1, weights=shares[:, word]) for word in range(len(words))], -1)
    np.testing.assert_allclose(pooled.sum(-1), expected)


def test_byte_pieces_and_long_pieces_belong_to_their_words() -> None:
    pieces = ["▁das", "▁", "<0xE2>", "<0x82>", "<0xAC>", "5.", "</s>"]
    shares = word_shares(pieces, ["das", "€5", "."])
    assert shares.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 0]]
    assert word_shares(["▁in", "▁the", "</s>"], ["inthe"]).tolist() == [[1], [1], [0]]
    assert word_shares(["</s>"], []).shape == (1, 0)


@pytest.mark.parametrize(
    "words",
    [
        ["№", "5", "ﬁsh", "and", "ＡＢＣ", "dog"],  # NFKC: No, fish, ABC
        ["the", "𐍈𐍈𐍈", "old", "𐍈", "man"],  # not in the vocabulary: <unk>
        ["the", "№", "𐍈", "sea", "…"],
        ["a\u0308pfel", "und", "ﬀ"],  # combining marks join
    ],
)
def test_normalized_and_unknown_pieces_belong_to_their_words(words: list[str]) -> None:
    pieces = pieces_of(NORMALIZED, " ".join(words))
    shares = word_shares(pieces, words)
    # Every space mark starts the next word.
    word = -1
    for piece, row in zip(pieces, shares, strict=True):
        word += piece.startswith("▁")
        if piece in ("▁", "</s>"):
            assert not row.any()
        else:
            assert row.tolist() == [float(i == word) for i in range(len(words))], piece


def test_a_word_without_pieces_has_no_attention() -> None:
    # nmt_nfkc removes zero-width spaces.
    words = ["the", "\u200b", "sea"]
    shares = word_shares(pieces_of(NORMALIZED, " ".join(words)), words)
    assert not shares[:, 1].any()
    weights = np.full((len(shares), len(shares)), 1 / len(shares))
    assert not pool(weights, shares, shares)[1].any()


def test_a_literal_space_mark_is_a_space() -> None:
    text = "the▁old man"
    words = split_words(text)
    shares = word_shares(pieces_of(BYTES, text), words)
    assert shares.sum(0)[0] > shares.sum(0)[1] > 0
    assert words == ["the▁old", "man"]


def test_split_words_splits_at_spaces_and_tabs() -> None:
    assert split_words("  10\u00a0000 Euro\t, bitte ") == ["10\u00a0000", "Euro", ",", "bitte"]
    assert split_words("") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("The well-known man's 2nd dog, über…", ["the", "well-known", "man's", "2nd", "dog", "über"]),
        ("猫が好き don't", ["猫", "が", "好", "き", "don't"]),
        (" — ", []),
        ("हिन्दी में लिखो", ["हिन्दी", "में", "लिखो"]),
        ("cafe\u0301 e\u0301te\u0301", ["caf\u00e9", "\u00e9t\u00e9"]),
        ("می\u200cخواهم بروم", ["می\u200cخواهم", "بروم"]),
        ("ที่นี่ 2", ["ที่", "นี่", "2"]),
        ("IŞIK ışık İzmir izmir", ["işik", "işik", "izmir", "izmir"]),
    ],
)
def test_casefolded_words_have_no_case_or_punctuation(line: str, words: list[str]) -> None:
    assert casefolded_words(line) == words
