"""Tokenizers: round trips, vocabulary sizes, caching, sampling, language tags."""

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece as spm
from hypothesis import given
from hypothesis import strategies as st

from heed.data.pairs.augmentation import dropouts
from heed.data.pairs.pairs import id_lists
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.pairs.tokenizer_training import TokenizerTrainer
from heed.data.text.source import Sentences, WordCounts
from heed.errors import HeedError
from heed.symbols import BOS, EOS, PAD, UNK
from tests import forkserver
from tests.data.texts import ROOT, TOKENIZER, only_text, toy_language, train_tokenizer, training_text


def learn(cache: Path, text: Sentences | None = None, **changes: Any) -> Tokenizer:
    return train_tokenizer(toy_language() if text is None else text, cache, **changes)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Tokenizer]:
    cache = tmp_path_factory.mktemp("cache")
    return {
        (kind, joint): learn(cache, kind=kind, joint=joint) for kind in ("bpe", "unigram") for joint in (True, False)
    }


KINDS = pytest.mark.parametrize(("kind", "joint"), [(k, j) for k in ("bpe", "unigram") for j in (True, False)])
any_text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t▁")
    | st.sampled_from("ab  \u00a0№ﬁé漢😀👩\u200d👧"),
    max_size=40,
)


@KINDS
@given(texts=st.lists(any_text, min_size=1, max_size=5))
def test_decoding_inverts_encoding(tokenizers: Any, kind: str, joint: bool, texts: list[str]) -> None:
    tokenizer = tokenizers[kind, joint]
    expected = [" ".join(word for word in text.split(" ") if word) for text in texts]
    assert tokenizer.decode_tgt(tokenizer.encode_tgt(texts)) == expected


@KINDS
def test_encoding_has_no_special_ids_and_no_unknown_characters(tokenizers: Any, kind: str, joint: bool) -> None:
    tokenizer = tokenizers[kind, joint]
    for encode in (tokenizer.encode_src, tokenizer.encode_tgt):
        (ids,) = encode(["The 漢字 <s> </s> <unk> 😀"])
        assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert tokenizer.encode_src([""]) == [[]]


def test_decoding_returns_one_line_for_any_ids(tokenizers: Any) -> None:
    tokenizer = tokenizers["bpe", True]
    (ids,) = tokenizer.encode_tgt(["Der Hund"])
    assert tokenizer.decode_tgt([[BOS, *ids, EOS, PAD, PAD], [], [EOS]]) == ["Der Hund", "", ""]
    breaks = [tokenizer.src_pieces(range(tokenizer.src_vocab)).index(piece) for piece in ("<0x0A>", "<0x0D>")]
    (line,) = tokenizer.decode_tgt([[*ids, *breaks, *ids]])
    assert line.split() == ["Der", "HundDer", "Hund"] or line.split() == ["Der", "Hund", "Der", "Hund"]
    assert len(line.splitlines()) == 1
    everything = [[token] for token in range(tokenizer.tgt_vocab)]
    assert not any(set("\n\r\t") & set(line) for line in tokenizer.decode_tgt(everything))


def test_joint_and_separate(tokenizers: Any) -> None:
    joint, separate = tokenizers["bpe", True], tokenizers["bpe", False]
    assert joint.joint
    assert joint.src_vocab == joint.tgt_vocab
    assert joint.encode_src(["Der dog"]) == joint.encode_tgt(["Der dog"])
    assert not separate.joint
    assert separate.src_pieces(separate.encode_src(["dog"])[0]) == ["▁dog"]
    assert separate.tgt_pieces(separate.encode_tgt(["Hund"])[0]) == ["▁Hund"]
    assert len(separate.tgt_pieces(separate.encode_tgt(["garden"])[0])) > 1, (
        "the target tokenizer was trained without English"
    )


@KINDS
def test_save_and_load(tokenizers: Any, kind: str, joint: bool, tmp_path: Path) -> None:
    tokenizer = tokenizers[kind, joint]
    tokenizer.save(tmp_path / "model")
    files = sorted(file.name for file in (tmp_path / "model").iterdir())
    assert files == (["tokenizer.model"] if joint else ["src.model", "tgt.model"])
    loaded = Tokenizer.load(tmp_path / "model")
    assert loaded.digest == tokenizer.digest
    assert loaded.joint == joint
    assert loaded.encode_tgt(["Der Hund"]) == tokenizer.encode_tgt(["Der Hund"])


def test_loading_refuses_other_files(tokenizers: Any, tmp_path: Path) -> None:
    with pytest.raises(HeedError, match="holds no tokenizer"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"not a model")
    with pytest.raises(HeedError, match=r"tokenizer\.model is not a SentencePiece model"):
        Tokenizer.load(tmp_path)
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(toy_language().src),
        model_prefix=str(tmp_path / "tokenizer"),
        vocab_size=40,
        minloglevel=2,
    )
    with pytest.raises(HeedError, match=r"not trained by heed: its ids of pad, unk, bos, eos are \(-1, 0, 1, 2\)"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_an_impossible_vocabulary_size_is_refused_with_the_bound(kind: str, tmp_path: Path) -> None:
    assert learn(tmp_path, kind=kind, vocab_size=315).src_vocab == 315
    with pytest.raises(HeedError, match=r"vocab_size=50000 .*must be at most \d+") as caught:
        learn(tmp_path, kind=kind, vocab_size=50_000)
    largest = int(str(caught.value).split("must be at most ")[1].split()[0])
    assert learn(tmp_path, kind=kind, vocab_size=largest).src_vocab == largest
    with pytest.raises(HeedError, match=r"vocab_size=100 .*must be at least \d+") as caught:
        learn(tmp_path, kind=kind, vocab_size=100)
    smallest = int(str(caught.value).split("must be at least ")[1].split()[0])
    assert learn(tmp_path, kind=kind, vocab_size=smallest).src_vocab == smallest


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("joint", [True, False])
def test_auto_vocab_size_suits_any_corpus(kind: str, joint: bool, tmp_path: Path) -> None:
    one = Sentences(["Hello."], ["你好。"])
    tokenizer = learn(tmp_path, one, kind=kind, joint=joint)
    assert tokenizer.decode_tgt(tokenizer.encode_tgt(["你好。再见"])) == ["你好。再见"]
    # 2,500 equally rare characters: more than a small vocabulary can hold besides its pieces.
    letters = [chr(0x4E00 + n) for n in range(2_500)]
    lines = ["".join(letters[(7 * n + k * k) % 2_500] for k in range(20)) for n in range(500)]
    chinese = Sentences([f"line {n}" for n in range(500)], lines)
    tokenizer = learn(tmp_path, chinese, kind=kind, joint=joint)
    seen = set("".join(lines))
    assert len(seen) < tokenizer.tgt_vocab < 2 * len(seen) + 1_000
    assert tokenizer.decode_tgt(tokenizer.encode_tgt(lines)) == lines


def test_auto_vocab_size_grows_with_the_corpus() -> None:
    trainer = TokenizerTrainer(**TOKENIZER)
    words = [WordCounts.of(toy_language(size)) for size in (100, 1_000, 10_000)]
    sizes = [trainer.auto_vocab_size(each.src + each.tgt, 1.0) for each in words]
    assert sizes == sorted(set(sizes))
    assert all(size % 8 == 0 for size in sizes)
    assert trainer.auto_vocab_size(words[1].src, 1.0) < sizes[1]
    sampled = trainer.auto_vocab_size(words[1].src + words[1].tgt, 0.1)
    assert abs(sampled - sizes[2]) < 0.02 * sizes[2], "a sample estimates the size for the whole corpus"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("normalization", ["identity", "nmt_nfkc"])
def test_words_with_counts_give_the_model_of_the_sentences(kind: str, normalization: str) -> None:
    text = toy_language()
    sentences = [*text.src, "  two  spaces ", "№ 5\u00a0km", "漢字かな", ""]
    settings = TOKENIZER | {"kind": kind, "joint": False, "vocab_size": 310, "normalization": normalization}
    words = WordCounts.of(Sentences(sentences, sentences))
    trained = Tokenizer(TokenizerTrainer(**settings).train_models(words, pairs=len(sentences)))
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, model_type=kind, vocab_size=310,
        normalization_rule_name=normalization, byte_fallback=True, character_coverage=0.99999, pad_id=PAD, unk_id=UNK,
        bos_id=BOS, eos_id=EOS, num_threads=4, minloglevel=2,
    )  # fmt: skip
    reference = spm.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [reference.id_to_piece(number) for number in range(310)]
    if kind == "bpe":
        assert trained.src_pieces(range(310)) == pieces
    else:  # its choice among equally good pieces depends on the order of the text
        assert len(set(trained.src_pieces(range(310))) & set(pieces)) > 300


def test_without_byte_fallback_unknown_characters_stay_visible(tmp_path: Path) -> None:
    tokenizer = learn(tmp_path, byte_fallback=False)
    (ids,) = tokenizer.encode_tgt(["Der 漢"])
    assert UNK in ids
    assert tokenizer.decode_tgt([ids]) == ["Der  ⁇ "]


def test_a_tokenizer_is_trained_once_per_text_and_settings(tmp_path: Path) -> None:
    first = learn(tmp_path)
    (folder,) = [path for path in (tmp_path / "tokenizer").iterdir() if path.is_dir()]
    written = folder.stat().st_mtime_ns
    assert learn(tmp_path).digest == first.digest
    assert folder.stat().st_mtime_ns == written
    others = [
        learn(tmp_path, vocab_size=333),
        learn(tmp_path, kind="unigram"),
        learn(tmp_path, toy_language(401)),
        learn(tmp_path, normalization="nmt_nfkc"),
    ]
    assert len({first.digest, *(other.digest for other in others)}) == 5, "text and settings are in the cache key"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_concurrent_processes_train_the_same_tokenizer(kind: str, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.data.pairs.test_tokenizer import learn;"
        f"print(learn(Path(sys.argv[1]), kind={kind!r}).digest)"
    )

    def run(cache: Path) -> str:
        command = [sys.executable, "-c", script, str(cache)]
        done = forkserver.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        assert done.stderr == "", "SentencePiece prints nothing"
        return done.stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        hashes = list(pool.map(run, [tmp_path / "shared", tmp_path / "shared", tmp_path / "own"]))
    assert len(set(hashes)) == 1
    assert not list((tmp_path / "shared").rglob("*.partial"))


def test_max_sentences_samples_the_whole_corpus(tmp_path: Path) -> None:
    """In a file sorted by length, the long sentences at the end are sampled too."""
    lines = ["aa bb"] * 500 + ["xylophone quartz"] * 500
    numbered = [f"{line} {number}" for number, line in enumerate(lines)]  # equal pairs have equal digests
    tokenizer = learn(tmp_path, Sentences(numbered, numbered), max_sentences=100)
    assert tokenizer.src_pieces(tokenizer.encode_src(["bb quartz"])[0]) == ["▁bb", "▁quartz"]


def test_the_module_imports_no_slow_library() -> None:
    script = (
        "import sys, heed.data.pairs.tokenizer;"
        "slow = {'datasets', 'pyarrow', 'torch', 'numpy', 'pandas', 'lightning'};"
        "print(sorted(slow & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()
    assert loaded == "[]"


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "word"},
        {"vocab_size": 0},
        {"vocab_size": "big"},
        {"character_coverage": 0.5},
        {"max_sentences": 0},
        {"bpe_dropout": 0.1, "kind": "unigram"},
        {"byte_fallback": True, "kind": "word"},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=next(iter(wrong))):  # for a wrong type, beartype raises first
        TokenizerTrainer(**(TOKENIZER | wrong))


def test_an_unknown_normalization_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(HeedError, match="nfxx"):
        learn(tmp_path, normalization="nfxx")


@pytest.mark.parametrize("joint", [True, False])
def test_sampled_segmentations_decode_to_the_same_text(joint: bool, tmp_path: Path) -> None:
    tokenizer = learn(tmp_path, joint=joint)
    lines = [*toy_language().tgt, "", "漢 fährt"]
    usual = id_lists(tokenizer.encode_tgt(lines))
    numbers = np.arange(len(lines))
    src, tgt = dropouts(tokenizer, 0.2)
    assert (src is tgt) is joint
    drawn = [tgt(usual, numbers, seed=seed).to_pylist() for seed in "12"]
    assert drawn[0] != drawn[1]
    assert tokenizer.decode_tgt(drawn[0]) == tokenizer.decode_tgt(drawn[1]) == lines


def test_bpe_dropout_does_not_change_the_trained_tokenizer(tmp_path: Path) -> None:
    assert learn(tmp_path, bpe_dropout=0.1).digest == learn(tmp_path / "elsewhere").digest


def test_tags_start_sources_and_are_not_encoded_from_text(tmp_path: Path) -> None:
    trainer = TokenizerTrainer(**TOKENIZER)
    text = only_text(training_text(toy_language(), tmp_path))
    plain, both = (trainer.train(text, tmp_path), trainer.train(text, tmp_path, tags=("<2de>", "<2en>")))
    assert plain.tags == ()
    both.save(tmp_path / "saved")
    for tokenizer in (both, Tokenizer.load(tmp_path / "saved")):
        assert tokenizer.tags == ("<2de>", "<2en>")
        (ids, empty), (reverse,) = (
            tokenizer.encode_src(["The dog", ""]),
            tokenizer.towards("en").encode_src(["The dog"]),
        )
        assert tokenizer.src_pieces([ids[0], reverse[0]]) == ["<2de>", "<2en>"]
        assert tokenizer.encode_src(["The dog"], tagged=False) == [ids[1:]]
        assert ids[1:] == reverse[1:] == tokenizer.encode_tgt(["The dog"])[0]
        assert empty == []
        assert tokenizer.decode_tgt([ids]) == ["The dog"]
        (literal,) = tokenizer.encode_tgt(["<2de> The dog"])
        assert not {ids[0], reverse[0]} & set(literal)
        assert tokenizer.decode_tgt([literal]) == ["<2de> The dog"]
    separate = TokenizerTrainer(**(TOKENIZER | {"joint": False}))
    with pytest.raises(HeedError, match=r"several target languages needs one vocabulary.*tokenizer.joint=true"):
        separate.train(text, tmp_path, tags=("<2de>", "<2en>"))


# ---- words and characters

WORDS = Sentences(
    ["the dog saw the cat", "the cat saw a dog ."] * 2 + ["once"], ["der Hund sah die Katze"] * 2 + ["ein"] * 3
)
PLAIN: dict[str, Any] = {"byte_fallback": False, "character_coverage": 1.0}


@pytest.mark.parametrize("joint", [True, False])
def test_words_are_the_most_frequent_ones_and_each_other_word_is_unk(tmp_path: Path, joint: bool) -> None:
    tokenizer = learn(tmp_path, WORDS, kind="word", joint=joint, vocab_size=4 + 3, **PLAIN)
    assert tokenizer.src_pieces(range(4, 7)) == (["▁the", "▁cat", "▁dog"])
    assert tokenizer.has_words
    ids = tokenizer.encode_src(["the dog", "the New York cat", "Ann", " the  cat ", "thecat the\u00a0cat", ""])
    the, cat, dog = 4, 5, 6
    assert ids == [[the, dog], [the, UNK, UNK, cat], [UNK], [the, cat], [UNK, UNK], []]
    target = tokenizer.encode_tgt(["the New York cat"])
    assert target == ([[the, UNK, UNK, cat]] if joint else [[UNK, UNK, UNK, UNK]])
    assert tokenizer.decode_tgt([[the, UNK, UNK, cat]])[0].split() == (
        ["the", "⁇", "⁇", "cat"] if joint else ["ein", "⁇", "⁇", "Hund"]
    )


def test_unknown_words_of_a_prefix_are_known_one_by_one(tmp_path: Path) -> None:
    tokenizer = learn(tmp_path, WORDS, kind="word", vocab_size=7, **PLAIN)
    assert tokenizer.unknown_tgt("New York the Ann cat") == ["New", " York", " Ann"]


def test_automatic_vocabularies(tmp_path: Path) -> None:
    """Words that occur twice, up to a multiple of 8; all characters."""
    many = Sentences([f"w{n // 2}" for n in range(100)] + [f"rare{n}" for n in range(50)], ["x"] * 150)
    words = learn(tmp_path, many, kind="word", joint=False, **PLAIN)
    pieces = words.src_pieces(range(words.src_vocab))
    assert words.src_vocab == 56
    assert {f"▁w{n}" for n in range(50)} == {piece for piece in pieces if piece.startswith("▁w")}
    characters = learn(tmp_path, WORDS, kind="char", **PLAIN)
    text = "".join(WORDS.src + WORDS.tgt)
    assert {*characters.src_pieces(range(4, characters.src_vocab))} == {*text} - {" "} | {"▁"}
    assert not characters.has_words
    assert characters.src_pieces(characters.encode_src(["a dog"])[0]) == ["▁", "a", "▁", "d", "o", "g"]
    assert characters.encode_src(["aßa"])[0][2] == UNK


def test_too_many_words_are_refused_with_the_bound(tmp_path: Path) -> None:
    with pytest.raises(HeedError, match=r"tokenizer\.vocab_size=100 must be at most 17 for this text"):
        learn(tmp_path, WORDS, kind="word", vocab_size=100, **PLAIN)
