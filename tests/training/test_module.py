"""Parameter groups, the loss of a micro-batch with and without R-Drop, and the format of checkpoints."""

import io
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import pytest
import sentencepiece as spm
import torch

from heed.data.datamodule import TranslationData
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch
from heed.data.steps.steps import Planner
from heed.data.steps.stream import EvaluationSets, StepShard
from heed.data.text.corpus import Corpus, EvaluationSet, TrainingSet
from heed.data.text.source import Sentences
from heed.decoding import GreedySearch
from heed.errors import HeedError
from heed.evaluation.scores import MetricScore
from heed.languages import Direction
from heed.models import build_model
from heed.models.seq2seq import Seq2Seq
from heed.run_format import RUN_FORMAT
from heed.symbols import BOS, EOS, PAD, UNK
from heed.training.evaluation import SplitOutputs
from heed.training.module import TrainingOptions, TranslationModule, freeze
from heed.training.schedules import Constant, Cosine, CosineInTime
from tests.conftest import TRANSFORMER
from tests.data.texts import numbered_dogs, only_text, train_tokenizer, training_text

FAMILIES = ["transformer", "rnn"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    proto = io.BytesIO()
    ids = {"pad_id": PAD, "unk_id": UNK, "bos_id": BOS, "eos_id": EOS}
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d"]), model_writer=proto, model_type="char", vocab_size=9, minloglevel=2, **ids
    )
    return Tokenizer([proto.getvalue()])


def build_module(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    *,
    alpha: float = 0.0,
    embedding_lr_scale: float = 1.0,
    teacher_forcing: float | Callable[[int], float] = 1.0,
) -> TranslationModule:
    return TranslationModule(
        model,
        tokenizer,
        TrainingOptions(
            label_smoothing=0.1,
            r_drop=alpha,
            embedding_lr_scale=embedding_lr_scale,
            clip_norm=0.0,
            max_skipped_steps=5,
            compile=False,
            teacher_forcing=teacher_forcing,
            guided_alignment=None,
            guided_alignment_weight=0.0,
        ),
        optimizer=partial(torch.optim.SGD, lr=0.1),
        schedule=Constant(warmup_steps=0),
        search=GreedySearch(max_length_factor=1.0, max_length_extra=1),
        seed=1,
    )


# ---- optimizer


def test_embedding_lr_scale_multiplies_the_learning_rate_of_embedding_tables_only(
    tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer
) -> None:
    model = tiny_model("transformer")
    groups = build_module(model, tokenizer, embedding_lr_scale=4.0).configure_optimizers().param_groups
    rates = {parameter: group["initial_lr"] for group in groups for parameter in group["params"]}
    tables = {module.weight for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    assert tables
    assert rates == {p: pytest.approx(0.4 if p in tables else 0.1) for p in model.parameters()}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_is_in_the_group_of_its_kind(
    family: str, tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer
) -> None:
    model = tiny_model(family)
    groups = build_module(model, tokenizer).configure_optimizers().param_groups
    names = {parameter: name for name, parameter in model.named_parameters()}
    by_kind = {group["kind"]: {names.pop(parameter) for parameter in group["params"]} for group in groups}
    assert not names, "these parameters are in no group"
    assert all("embedding" in name for name in by_kind["embedding"])
    assert all("bias" in name or "norm" in name for name in by_kind["vector"])
    assert all(name.endswith(("weight", "weight_ih_l0", "weight_hh_l0")) for name in by_kind["matrix"])
    assert by_kind["embedding"]
    assert len(by_kind["matrix"]) > 5
    assert {group["kind"]: group["weight_decay"] for group in groups}["vector"] == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen_weights_stay_and_the_gradients_of_the_others_are_the_same(
    family: str, tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer
) -> None:
    names, batch = ("encoder", "src_embedding", "decoder.0"), random_batch()
    model, whole = tiny_model(family), tiny_model(family)
    model.load_state_dict(whole.state_dict())
    before = deepcopy(model.state_dict())
    freeze(model, names)
    module = build_module(model, tokenizer)
    for each in (module, build_module(whole, tokenizer)):
        each.summed_loss(batch)[0].backward()
    module.configure_optimizers().step()
    for (name, weight), other in zip(model.named_parameters(), whole.parameters(), strict=True):
        is_frozen = name.startswith(names)
        assert torch.equal(weight, before[name]) == is_frozen, name
        assert (weight.grad is None) if is_frozen else torch.equal(weight.grad, other.grad)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["encodr"], "no weight begins with 'encodr'. The parts of this model are tgt_embedding, src_embedding, "),
        ([""], "leaves no weight to train"),
    ],
)
def test_names_to_freeze_that_are_wrong(names: list[str], message: str, tiny_model: Callable[..., Seq2Seq]) -> None:
    with pytest.raises(HeedError, match=message):
        freeze(tiny_model("transformer"), names)


@pytest.mark.parametrize("score", ["general", "additive"])
def test_weights_of_the_scores_of_heads_are_matrices(score: Any, tokenizer: Tokenizer) -> None:
    config = replace(TRANSFORMER, cross_attention=replace(TRANSFORMER.cross_attention, score=score))
    model = build_model(config, src_vocab=23, tgt_vocab=29, joint=False)
    groups = build_module(model, tokenizer).configure_optimizers().param_groups
    kinds = {parameter: group["kind"] for group in groups for parameter in group["params"]}
    found = [kinds[parameter] for name, parameter in model.named_parameters() if "attention.score." in name]
    assert found
    assert {*found} == {"matrix"}


def test_a_cosine_ends_with_each_training(
    tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    pairs = numbered_dogs(4)
    valid = {"valid": EvaluationSet(Sentences(["a dog"], ["ein Hund"]), Direction("en", "de"))}
    text = only_text(training_text(pairs, tmp_path))
    corpus = Corpus(name="dogs", train=text, valid=valid, tests={}, max_eval_tokens=None)
    planner = Planner(batch_tokens=50, device_tokens=50, pool=4, seed=1)
    data = TranslationData(corpus, train_tokenizer(pairs, tmp_path), planner, bpe_dropout=0.0, with_tests=False)
    module = build_module(tiny_model("transformer"), tokenizer)
    module.schedule = Cosine(warmup_steps=0, total_steps=None, floor=0.0)
    for steps in (10, 20):
        module.trainer = L.Trainer(accelerator="cpu", barebones=True, max_steps=steps)
        module.trainer.datamodule = data
        module.on_fit_start()
        assert module.lr_factor(steps // 2) == pytest.approx(0.5)
        assert module.lr_factor(steps) == 0
    module.trainer = L.Trainer(accelerator="cpu", logger=False, max_epochs=-1, max_time="00:00:00:50")
    module.trainer.datamodule = data
    module.on_fit_start()
    assert isinstance(module.lr_factor, CosineInTime)
    module.trainer = L.Trainer(accelerator="cpu", logger=False, max_epochs=-1)
    module.trainer.datamodule = data
    with pytest.raises(HeedError, match="needs the end of training"):
        module.on_fit_start()


# ---- loss


def random_batch() -> Batch:
    src, tgt = torch.randint(4, 23, (5, 7)), torch.randint(4, 29, (5, 6))
    tgt[3:, 4:] = PAD
    tgt_in = torch.cat([torch.full((5, 1), BOS), tgt[:, :-1]], dim=1)
    positions = (tgt.flatten() != PAD).nonzero()[:, 0]
    return replace(Batch.without_padding(src, tgt_in, tgt), tgt_positions=(positions,))


def loss_and_gradients(
    module: TranslationModule, batch: Batch, *, seed: int
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    torch.manual_seed(seed)
    loss, _ = module.summed_loss(batch)
    return loss.detach(), list(torch.autograd.grad(loss, list(module.model.parameters())))


@pytest.mark.parametrize("family", FAMILIES)
def test_without_r_drop_the_loss_is_the_cross_entropy_of_one_pass(
    family: str, tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer
) -> None:
    """Bit for bit, and with the same random numbers."""
    model, batch = tiny_model(family).train(), random_batch()
    torch.manual_seed(3)
    hidden = model.decode_hidden(batch.src, batch.src_mask, batch.tgt_in)
    expected_loss, _ = hidden.loss(batch.tgt_out, *batch.tgt_positions, label_smoothing=0.1)
    expected_gradients = torch.autograd.grad(expected_loss, list(model.parameters()))
    expected_rng_state = torch.get_rng_state()
    loss, gradients = loss_and_gradients(build_module(model, tokenizer), batch, seed=3)
    assert torch.equal(loss, expected_loss)
    assert all(map(torch.equal, gradients, expected_gradients))
    assert torch.equal(torch.get_rng_state(), expected_rng_state)


@pytest.mark.parametrize("family", FAMILIES)
def test_r_drop_compares_two_passes_with_different_dropout(
    family: str, tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer
) -> None:
    model, batch = tiny_model(family).train(), random_batch()
    torch.manual_seed(3)
    repeated = (part.repeat_interleave(2, 0) for part in (batch.src, batch.src_mask, batch.tgt_in))
    both = model.decode_hidden(*repeated)
    for states, other_states in zip(both.states[::2], both.states[1::2], strict=True):
        assert not torch.allclose(states, other_states)
    expected, _ = both.loss(batch.tgt_out, *batch.tgt_positions, label_smoothing=0.1, r_drop=2.0)
    loss, _ = loss_and_gradients(build_module(model, tokenizer, alpha=2.0), batch, seed=3)
    torch.testing.assert_close(loss, expected.detach())


@pytest.mark.parametrize("family", FAMILIES)
def test_r_drop_changes_nothing_without_dropout(
    family: str, tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer
) -> None:
    model, batch = tiny_model(family).eval(), random_batch()
    results = [loss_and_gradients(build_module(model, tokenizer, alpha=alpha), batch, seed=3) for alpha in (2.0, 0.0)]
    torch.testing.assert_close(*results)


def test_a_process_without_micro_batches_gives_every_parameter_a_gradient(
    tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build_module(tiny_model("transformer"), tokenizer)
    corpus = SimpleNamespace(train=SimpleNamespace(texts=[None]))
    monkeypatch.setattr(TranslationModule, "data", SimpleNamespace(corpus=corpus))
    monkeypatch.setattr(TranslationModule, "trainer", SimpleNamespace(strategy=None))
    monkeypatch.setattr(module, "manual_backward", torch.Tensor.backward)
    module._backward(StepShard(0, 0, 9, 9, 18, micro_batches=(), last=False))
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in module.parameters())


# ---- checkpoints


@pytest.fixture
def module(
    tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> TranslationModule:
    """A module whose trainer resumes from runs/old/last.ckpt."""
    module = build_module(tiny_model("rnn"), tokenizer)
    trainer = SimpleNamespace(
        ckpt_path="runs/old/last.ckpt",
        optimizers=[torch.optim.SGD(module.parameters())],
        fit_loop=SimpleNamespace(state_dict=dict),
    )
    monkeypatch.setattr(TranslationModule, "trainer", trainer)
    return module


def saved_by(module: TranslationModule) -> dict[str, Any]:
    checkpoint: dict[str, Any] = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    return checkpoint


@pytest.mark.parametrize("number", [RUN_FORMAT - 1, RUN_FORMAT + 1])
def test_a_checkpoint_of_another_format_is_refused(module: TranslationModule, number: int) -> None:
    with pytest.raises(HeedError, match=r"^runs/old/last\.ckpt was written by another version of heed"):
        module.on_load_checkpoint({**saved_by(module), "heed_format": number})


# ---- evaluation


def evaluate(module: TranslationModule, batch: Batch) -> float:
    """Return the loss of a batch as a test measures it, within the autocast of a run in bf16."""
    with torch.autocast("cpu", torch.bfloat16):
        module.test_step(batch, 0)
    return module.evaluator.outputs.pop("test").nll


def test_the_final_loss_is_that_of_fp32_for_a_run_in_bf16(
    tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build_module(tiny_model("transformer").float(), tokenizer)
    data = SimpleNamespace(sets=SimpleNamespace(evaluated=["test"]), planner=SimpleNamespace(device_tokens=100))
    monkeypatch.setattr(TranslationModule, "data", data)
    batch = random_batch()
    hidden = module.model.decode_hidden(batch.src, None, batch.tgt_in, src_lengths=batch.src_lengths)
    _, nll = hidden.loss(batch.tgt_out, batch.tgt_positions[0], label_smoothing=0.0)
    assert evaluate(module, batch) == pytest.approx(nll.item(), rel=1e-6)


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_process_scores_translations(
    rank: int, tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored: list[str] = []
    broadcast: list[object] = []

    def receive(own: object) -> object:
        broadcast.append(own)
        return own if rank == 0 else f"of rank 0, number {len(broadcast)}"

    module = build_module(tiny_model("rnn"), tokenizer)
    module.evaluator.metrics = {"comet": lambda _: scored.append("comet") or MetricScore(0.5, "signature")}  # type: ignore[dict-item]
    trainer = L.Trainer(accelerator="cpu", barebones=True)
    monkeypatch.setattr(trainer.strategy, "broadcast", receive)
    monkeypatch.setattr(type(trainer.strategy), "is_global_zero", rank == 0)
    valid = {"valid": EvaluationSet(Sentences(["a"], ["b"]), Direction("en", "de"))}
    corpus = Corpus(name="letters", train=TrainingSet([]), valid=valid, tests={}, max_eval_tokens=None)
    sets = EvaluationSets(corpus, tokenizer, with_tests=False, limits={})
    module.evaluator.outputs["valid"] = SplitOutputs([(0, [5])], nll=2.0, tgt_tokens=2)
    result = module.evaluator.take("valid", module.greedy, sets, trainer)
    assert broadcast == ([result.scores] if rank == 0 else [None])
    if rank == 1:
        assert (scored, result.scores) == ([], "of rank 0, number 1")
        return
    module.results["valid"] = result
    assert scored == ["comet"]
    assert module._validation_scores("valid") == {"bleu": 0.0, "chrf": 0.0, "loss": 1.0, "comet": 0.5}
