"""``heed import``: models that transformers wrote, in OPUS-MT's format, translate as they do there."""

import gzip
import json
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import marian
import pytest
import torch
from safetensors.torch import load_file, save_file

import heed
from heed.decoding import BeamSearch, GreedySearch
from heed.errors import HeedError
from heed.exchange import from_huggingface, to_ctranslate2, to_huggingface
from heed.exchange.from_huggingface import import_model
from heed.exchange.parity import check_set
from heed.files import built_in_corpus
from heed.inference import model_folder
from heed.inference.translator import Translator
from heed.symbols import BOS, EOS, PAD

transformers: Any = pytest.importorskip("transformers")
pytestmark = pytest.mark.slow

Heed = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]

TINY = {
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_layers": 1,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 48,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "OPUS-MT": {},
    "half precision, pickled": {"binary": True},
    "several languages": {"tags": [">>deu<<", ">>nld<<"]},
    "a vocabulary that lacks pieces": {"without": lambda piece: len(piece) > 2 and ord(piece[-1]) % 3 == 0},
    "two vocabularies": {"separate": True},
    "BPE": {"kind": "bpe", "without": lambda piece: piece.endswith("n")},
    "an output layer of its own": {"tie_word_embeddings": False},
    "ReLU": {"activation_function": "relu"},
}
HOSTILE = [
    "  two  spaces ", "</s> <unk> <pad>", "ﬁne № ½", "日本語 text", "\u200b a", "a\tb", "🙂 emoji", "▁x ▁",
    "süße Füße ßßß", "{name} %s <br>", ">>deu<", "é e\u0301",
]  # fmt: skip


def corpus(count: int) -> tuple[list[str], list[str]]:
    """Return the first sentences of the built-in corpus."""
    with gzip.open(built_in_corpus() / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        pairs = [json.loads(line) for line in islice(file, count)]
    return [pair["src"] for pair in pairs], [pair["tgt"] for pair in pairs]


def randomised(model: Any) -> Any:
    """Give a model larger weights, so that translations differ, and a bias; <pad> stays as the converter leaves it."""
    pad = model.config.pad_token_id
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
        model.final_logits_bias.normal_()
        model.final_logits_bias[:, pad] = 0.0
        for table in (model.model.encoder.embed_tokens, model.model.decoder.embed_tokens, model.lm_head):
            table.weight[pad] = 0.0
    return model


class Pair(NamedTuple):
    """A model of transformers, and what heed made of it."""

    folder: Path
    theirs: Any
    segmenter: Any
    ours: Translator


@pytest.fixture(params=VARIANTS, scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("marian") / "model"
    return pair_of(folder, **VARIANTS[request.param])


def pair_of(folder: Path, **options: Any) -> Pair:
    binary = options.pop("binary", False)
    src, tgt = corpus(3000)
    # Letters that only one side knows, and some that both know.
    model = marian.write_marian(folder, [[*src, "Zoë"] * 2, [*tgt, "süße Füße"] * 2], size=300, **TINY, **options)
    marian.save(randomised(model), folder, binary=binary)
    found = import_model(folder, folder.with_name("heed"))
    assert found.difference is not None
    assert found.difference < 1e-4
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    segmenter = transformers.MarianTokenizer.from_pretrained(folder, split_special_tokens=True)
    return Pair(folder, theirs, segmenter, heed.load(folder.with_name("heed"), device="cpu"))


def vocabularies(folder: Path) -> tuple[from_huggingface.TheirVocabulary, from_huggingface.TheirVocabulary]:
    settings = from_huggingface._read_settings(folder / "config.json")
    return from_huggingface._read_vocabularies(folder, settings, from_huggingface._read_weights(folder, settings))


def test_token_ids_are_those_of_transformers(pair: Pair) -> None:
    src, tgt = corpus(1500)
    rng = random.Random(1)
    noise = ["".join(rng.choice("abcdeäöüßZë ☃.,中\u0301") for _ in range(20)) for _ in range(300)]
    lines = [*src, *tgt, *HOSTILE, *noise]
    ids = vocabularies(pair.folder)
    tokenizer = pair.ours.tokenizer
    for side, own in enumerate((tokenizer.encode_src(lines, tagged=False), tokenizer.encode_tgt(lines))):
        given = {"text_target": lines} if side else {"text": lines}
        theirs = pair.segmenter(**given, add_special_tokens=False)["input_ids"]
        assert [[ids[side].ids[id_] for id_ in row] for row in own] == theirs
    assert tokenizer.tags == (("<2deu>", "<2nld>") if "several" in str(pair.ours.directions) else tokenizer.tags)


@torch.inference_mode()
def test_pad_and_bos_have_no_probability(pair: Pair) -> None:
    model = pair.ours.model
    src = torch.tensor([[*pair.ours.tokenizer.encode_src(["the dog runs"])[0], EOS]])
    probabilities = model(src, None, torch.tensor([[BOS, 7, 9]])).softmax(-1)
    assert probabilities[..., [PAD, BOS]].max() == 0.0


def generated(pair: Pair, lines: list[str], beams: int, limit: int) -> list[list[int]]:
    """Return the ids, in heed's order, that ``generate`` of transformers finds by the definition of heed's search."""
    tags = pair.ours.tokenizer.src_pieces(pair.ours.tokenizer.tag_ids)
    tag = f">>{tags[0][2:-1]}<<" if tags else ""
    batch = pair.segmenter([tag + line for line in lines], padding=True, return_tensors="pt")
    settings = pair.theirs.config
    pad, start, eos = settings.pad_token_id, settings.decoder_start_token_id, settings.eos_token_id
    config = transformers.GenerationConfig(
        num_beams=beams, do_sample=False, early_stopping="never" if beams > 1 else False, length_penalty=0.0,
        renormalize_logits=True, max_new_tokens=limit, suppress_tokens=[pad, start], pad_token_id=pad,
        eos_token_id=eos, decoder_start_token_id=start,
    )  # fmt: skip
    pair.theirs.generation_config = config
    found = pair.theirs.generate(**batch, generation_config=config)
    ours = {theirs: own for own, theirs in enumerate(vocabularies(pair.folder)[1].ids)}
    rows = [[ours[id_] for id_ in row if id_ != pad] for row in found[:, 1:].tolist()]
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]


def compared(pair: Pair, lines: list[str], limit: int = 20) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    """Yield the translations of both by greedy search and by beam search."""
    ids = pair.ours.tokenizer.encode_src(lines)
    limits: dict[str, Any] = {"max_length_factor": 0.0, "max_length_extra": limit}
    for search in (GreedySearch(**limits), BeamSearch(beam=4, length_penalty=0.0, n_best=1, **limits)):
        own = [best.tokens for best, *_ in pair.ours.translate_ids(ids, search=search)]
        yield own, generated(pair, lines, 4 if isinstance(search, BeamSearch) else 1, limit)


def check_translations(pair: Pair, lines: list[str]) -> None:
    """Check that both find the same translations, or at most one other that is as probable up to rounding."""
    sources = [[*ids, EOS] for ids in pair.ours.tokenizer.encode_src(lines)]
    for own, theirs in compared(pair, lines):
        different = [row for row in range(len(lines)) if own[row] != theirs[row]]
        assert len(different) <= 1
        for row in different:
            mine, other = pair.ours.score_ids([sources[row]] * 2, [own[row], theirs[row]])
            assert mine == pytest.approx(other, abs=1e-4)


def test_translations_are_those_of_transformers(pair: Pair) -> None:
    check_translations(pair, corpus(30)[0])


def test_there_and_back_nothing_changes(pair: Pair, tmp_path: Path) -> None:
    check = check_set("lines", corpus(20)[0])
    to_huggingface.export(pair.ours, tmp_path / "export", check, quantization=None)
    again = import_model(tmp_path / "export", tmp_path / "again").folder
    first, second = (model_folder.load(each) for each in (pair.folder.with_name("heed"), again))
    assert first.model.config == second.model.config
    assert first.tokenizer.digest == second.tokenizer.digest
    for name, weight in first.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name
    to_ctranslate2.export(pair.ours, tmp_path / "ctranslate2", check, quantization=None)


def test_a_trained_model_is_fine_tuned_and_goes_back(command: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """As in docs/published-models.md: 200 of 200 translations are equal, before and after fine-tuning."""
    lines = corpus(2000)
    folder = tmp_path / "marian"
    model = marian.write_marian(folder, lines, size=300, **TINY)
    marian.train(model, folder, lines, steps=60)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    segmenter = transformers.AutoTokenizer.from_pretrained(folder)
    found = import_model(folder, tmp_path / "heed").folder
    check_translations(Pair(folder, theirs, segmenter, heed.load(found, device="cpu")), lines[0][:200])

    for side, text in zip(("en", "de"), lines, strict=True):
        (tmp_path / f"mine.{side}").write_text("".join(f"{line}\n" for line in text[:40]), encoding="utf-8")
    files = [f"data.{split}=[[mine.en,mine.de]]" for split in ("train", "valid", "test")]
    status, err = command(
        f"init_from={folder}", "data=files", *files, "data.cleaning.drop_leaked=false", "trainer=cpu", "logger=none",
        "trainer.max_steps=4", "trainer.validate_every=2", "optimizer=adamw", "optimizer.lr=1e-3", "folder=tuned",
        "weights=last", "test=false", "search.beam=1", "search.max_length_factor=0.5",
    )  # fmt: skip
    assert status == 0, err
    tuned = heed.load(tmp_path / "tuned", device="cpu")
    assert tuned.base_model == {"name": "marian", "license": "apache-2.0"}
    assert "fine-tuned from marian (licence: apache-2.0)" in (tmp_path / "tuned/model/README.md").read_text()
    to_huggingface.export(tuned, tmp_path / "hub", check_set("lines", lines[0][:20]), quantization=None)
    assert "license: " in (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    back = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hub", dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hub")
    check_translations(Pair(tmp_path / "hub", back, tokenizer, tuned), lines[0][:200])


# ---- what is refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder") / "model"
    marian.write_marian(folder, corpus(500), size=120, **TINY)
    return folder


def changed(**values: Any) -> Callable[[Path], None]:
    """Change settings in config.json; None removes one."""

    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config = {name: value for name, value in {**config, **values}.items() if value is not None}
        (folder / "config.json").write_text(json.dumps(config))

    return change


def cut(name: str, size: int = 1000) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size]) and None


def written(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(content) and None


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def hostile_pickle(folder: Path) -> None:
    torch.save({"model.shared.weight": Path("x")}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def small_output(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, "lm_head.weight": torch.zeros(3, 32)}, folder / "model.safetensors")


def scalar_embedding(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    tables = [name for name in weights if name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight"))]
    save_file({**weights, **{name: torch.tensor(1.0) for name in tables}}, folder / "model.safetensors")


REFUSED: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "another type": (changed(model_type="t5"), ("type t5",)),
    "all at once": (
        changed(scale_embedding=False, activation_function="tanh", decoder_ffn_dim=50),
        ("scale_embedding=false", "activation_function=tanh", "ffn_dim"),
    ),
    "no layers": (changed(encoder_layers=None), ("encoder_layers is missing",)),
    "text for a number": (changed(d_model="x"), ("d_model", "integer")),
    "another width": (changed(d_model=64), ("weights",)),
    "endless layers": (changed(encoder_layers=900), ("belong to different models",)),
    "an impossible width": (changed(encoder_attention_heads=5, decoder_attention_heads=5), ("multiple of",)),
    "special tokens that are not there": (changed(pad_token_id=10**6, decoder_start_token_id=10**6), ("vocab.json",)),
    "a cut config": (cut("config.json", 100), ("config.json is damaged",)),
    "cut weights": (cut("model.safetensors"), ("cut off",)),
    "no weights": (removed("model.safetensors"), ("has no weights",)),
    "code among the weights": (hostile_pickle, ("more than weights",)),
    "an output layer that is too small": (small_output, ("smaller than the vocabulary",)),
    "a number for the embedding": (scalar_embedding, ("does not belong to the model",)),
    "no SentencePiece model": (removed("target.spm"), ("does not exist",)),
    "a foreign SentencePiece model": (written("source.spm", "hello"), ("not a SentencePiece model",)),
    "a list as vocabulary": (written("vocab.json", "[1, 2]"), ("vocab.json is damaged",)),
    "ids out of range": (written("vocab.json", '{"<unk>": 1, "a": 999999}'), ("an id of its own",)),
    "two pieces with an id": (written("vocab.json", '{"<unk>": 1, "a": 5, "b": 5}'), ("an id of its own",)),
    "deep JSON": (written("vocab.json", "[" * 10**5), ("vocab.json is damaged",)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_wrong_folder_is_one_sentence(refused: Refused, folder: Path, tmp_path: Path, what: str) -> None:
    change, words = REFUSED[what]
    copy = shutil.copytree(folder, tmp_path / "copy")
    change(copy)
    err = refused("import", copy, "--out", tmp_path / "out")
    assert all(word in err for word in words), err
    assert not (tmp_path / "out").exists()


def test_a_name_that_the_hub_does_not_give_is_one_sentence(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "hub does not give it" in refused("import", "nobody/no-model", "--out", tmp_path / "out")
    assert "is not a folder" in refused("import", tmp_path / "no", "--out", tmp_path / "out")


def test_any_error_of_the_hub_is_one_sentence(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ConnectError(Exception):
        """As of an HTTP package that heed does not import."""

    def fail(name: str) -> list[str]:
        raise ConnectError("no route")

    monkeypatch.setattr("huggingface_hub.list_repo_files", fail)
    assert "the hub does not give it: no route" in refused("import", "nobody/no-model", "--out", tmp_path / "out")


def test_ids_without_a_name_and_pieces_like_tags_are_no_languages(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    entries = json.loads((copy / "vocab.json").read_text())
    pieces = {id_: piece for piece, id_ in entries.items()}
    for id_ in (2, 20, 25):
        del entries[pieces[id_]]
    entries = {{30: "<2", 31: "<20>", 32: "<s>"}.get(id_, piece): id_ for piece, id_ in entries.items()}
    (copy / "vocab.json").write_text(json.dumps(entries))
    import_model(copy, tmp_path / "out")
    model = heed.load(tmp_path / "out")
    assert (model.tokenizer.tags, model.directions) == ((), ["en-de"])
    to_huggingface.export(model, tmp_path / "back", check_set("lines", corpus(5)[0]), quantization=None)


def test_weights_that_differ_are_not_tied(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = load_file(copy / "model.safetensors")
    save_file(
        {**weights, "lm_head.weight": torch.ones_like(weights["model.shared.weight"])}, copy / "model.safetensors"
    )
    assert not import_model(copy, tmp_path / "out").model.config.tie_embeddings


@pytest.mark.full
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_vocabulary_is_extended_on_both_sides_or_refused(
    command: Callable[..., tuple[int, str]], tmp_path: Path, kind: str
) -> None:
    marian.write_marian(tmp_path / "marian", corpus(500), size=120, kind=kind, **TINY)
    for side, text in zip(("en", "de"), corpus(300), strict=True):
        (tmp_path / f"mine.{side}").write_text("".join(f"{line} žluťoučký kůň\n" for line in text), encoding="utf-8")
    status, err = command(
        "init_from=marian", "tokenizer.vocabulary=extend", "data=files", "data.train=[[mine.en,mine.de]]",
        "data.valid=[[mine.en,mine.de]]", "data.test=null", "data.cleaning.drop_leaked=false",
        "trainer=cpu", "logger=none", "test=false",
        "trainer.max_steps=1", "search.beam=1", "search.max_length_factor=0.1", "data.max_eval=5", "folder=tuned",
    )  # fmt: skip
    if kind == "bpe":
        assert "Set tokenizer.vocabulary=new" in err
    else:
        assert status == 0, err
        assert heed.load(tmp_path / "tuned").tokenizer.joint


def test_other_commands_name_this_one(refused: Refused, folder: Path, tmp_path: Path) -> None:
    assert f"heed import {folder}" in refused("translate", folder)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    assert "already exists" in refused("import", folder, "--out", tmp_path / "out")


def test_what_is_not_compared_is_said(heed_cli: Heed, folder: Path, tmp_path: Path) -> None:
    assert "differ from those of transformers by at most" in heed_cli("import", folder, "--out", tmp_path / "a")[1]
    assert "not compared" in heed_cli("import", folder, "--out", tmp_path / "b", "--no-check")[1]
    assert heed.load(tmp_path / "b").directions == ["en-de"]


def test_a_model_that_differs_is_not_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert = from_huggingface.huggingface.from_theirs

    def wrong(*arguments: Any) -> dict[str, torch.Tensor]:
        found = convert(*arguments)
        found["encoder.0.feed_forward.norm.bias"][0] += 10.0
        return found

    monkeypatch.setattr(from_huggingface.huggingface, "from_theirs", wrong)
    with pytest.raises(HeedError, match=r"its logits .* differ"):
        import_model(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
