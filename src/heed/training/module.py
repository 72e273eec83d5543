"""The LightningModule. A Lightning batch is this process's shard of an optimizer step (`StepShard`)."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.optim import Optimizer

from heed.compat import fit_progress
from heed.data.datamodule import TranslationData
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch
from heed.data.steps.stream import StepShard
from heed.decoding import GreedySearch, Search
from heed.errors import HeedError
from heed.evaluation.scores import Metric
from heed.inference.translator import Translator
from heed.layers.attention_scores import HeadLinear
from heed.models.seq2seq import DecoderHidden, TrainableSeq2Seq
from heed.models.transformer import Transformer
from heed.options import AtLeast0, AtLeast1, NotNegative, Probability, UnitInterval
from heed.run_format import RUN_FORMAT
from heed.runs.checkpoints import FORMAT_KEY
from heed.runs.folder import adopt_checkpoint, check_resumable
from heed.training.evaluation import Evaluator, SplitResult
from heed.training.guided_alignment import GuidedAlignment
from heed.training.memory import explain_out_of_memory, find_device_tokens
from heed.training.nonfinite import DivergedError, SkippedSteps, clip_gradients, step_if_finite
from heed.training.schedules import Cosine, until_end


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The training loss and the update of the weights. conf/module/default.yaml explains each option."""

    label_smoothing: UnitInterval
    r_drop: NotNegative
    embedding_lr_scale: NotNegative
    clip_norm: NotNegative
    max_skipped_steps: AtLeast1
    """Checked every ``trainer.log_every`` steps."""
    compile: bool
    teacher_forcing: Probability | Callable[[int], float]
    """Or a function that returns the probability by optimizer step from 0 (`heed.training.schedules`)."""
    guided_alignment: str | None
    guided_alignment_weight: NotNegative
    freeze: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.guided_alignment and self.compile:
            raise HeedError("module.compile=true cannot train with module.guided_alignment: leave one of them out.")


def compiled_decode_hidden(model: TrainableSeq2Seq) -> Callable[..., DecoderHidden]:
    """Return ``model.decode_hidden`` compiled as one graph for batches of all sizes.

    Batches with and without source padding have a graph each.

    Raises:
        HeedError: if the model is no transformer: the time steps of an RNN would be one graph for each length.
    """
    if not isinstance(model, Transformer):
        raise HeedError("module.compile=true is for transformers: leave it out.")
    return torch.compile(model.decode_hidden, dynamic=True, fullgraph=True)


def freeze(model: nn.Module, names: Iterable[str]) -> None:
    """Let the weights whose names begin with one of ``names`` stay as they are ("encoder", "src_embedding").

    Tied weights have several names; one of them is enough.

    Raises:
        HeedError: if no weight has a name, or no weight would be left to train.
    """
    weights = dict(model.named_parameters(remove_duplicate=False))
    for name in names:
        if not any(weight.startswith(name) for weight in weights):
            parts = ", ".join(dict.fromkeys(weight.partition(".")[0] for weight in weights))
            raise HeedError(f"module.freeze: no weight begins with {name!r}. The parts of this model are {parts}.")
    for name, parameter in weights.items():
        if name.startswith(tuple(names)):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in weights.values()):
        raise HeedError("module.freeze leaves no weight to train.")


def _src_mask(batch: Batch) -> Tensor | None:
    """Return the mask of the source; None without padding: a GPU can then take its fastest attention."""
    return batch.src_mask if batch.has_src_padding else None


class TranslationModule(L.LightningModule):
    """Trains a translation model, validates with greedy search, and tests with ``search``.

    The gradient of an optimizer step is that of the mean loss over all its target tokens, for any number of
    micro-batches and devices. Dropout masks depend on (seed, epoch, step, micro-batch) only.
    """

    def __init__(
        self,
        model: TrainableSeq2Seq,
        tokenizer: Tokenizer,
        options: TrainingOptions,
        *,
        optimizer: Callable[[Iterable[dict[str, Any]]], Optimizer],
        schedule: Callable[[int], float],
        search: Search,
        seed: AtLeast0,
        metrics: Mapping[str, Metric] | None = None,
        guide: GuidedAlignment | None = None,
    ) -> None:
        """
        Args:
            optimizer: builds the optimizer from parameter groups.
            schedule: factor on the learning rate, by optimizer step from 0.
            search: for the final scores.
            seed: of dropout.
            metrics: further metrics of every validation and test, by name.
            guide: alignments that an attention head learns.
        """
        super().__init__()
        self.automatic_optimization = False
        freeze(model, options.freeze)
        self.model = model
        self.options = options
        self.decode_hidden = compiled_decode_hidden(model) if options.compile else model.decode_hidden
        self.tokenizer = tokenizer
        self.make_optimizer = optimizer
        self.schedule = schedule
        self.lr_factor = schedule  # of the current training
        self.search = search.with_text(tokenizer.decode_tgt)
        self.greedy = GreedySearch(
            max_length_factor=search.max_length_factor,
            max_length_extra=search.max_length_extra,
            no_repeat_ngram_size=search.no_repeat_ngram_size,
        )
        self.seed = seed
        self.evaluator = Evaluator(model, tokenizer, dict(metrics or {}))
        self.guide = guide
        self.skipped = SkippedSteps(limit=options.max_skipped_steps)
        self.training_began = False
        """Whether training has started, after restoring a checkpoint if there is one."""
        self.validation_scores: dict[str, float] = {}
        """The latest validation: "bleu", "chrf", "loss" and the further metrics."""
        self.results: dict[str, SplitResult] = {}
        """The latest evaluation of each split."""

    @property
    def data(self) -> TranslationData:
        data = self.trainer.datamodule
        assert isinstance(data, TranslationData)
        return data

    @property
    def translator(self) -> Translator:
        """Translates with the current weights, by greedy search."""
        return Translator(self.model, self.data.tokenizer, self.greedy, batch_tokens=self.data.planner.device_tokens)

    def configure_callbacks(self) -> list[Callback]:
        return [self.skipped]

    # ---- optimizer

    def configure_optimizers(self) -> Optimizer:
        """Build the optimizer from three parameter groups with the kinds "matrix", "embedding" and "vector"."""
        matrices = {
            parameter
            for module in self.model.modules()
            if isinstance(module, (nn.Linear, HeadLinear, nn.RNNBase))
            for parameter in module.parameters(recurse=False)
        }
        groups: dict[str, Any] = {kind: {"kind": kind, "params": []} for kind in ("matrix", "embedding", "vector")}
        for parameter in filter(lambda each: each.requires_grad, self.parameters()):
            kind = "vector" if parameter.dim() <= 1 else "matrix" if parameter in matrices else "embedding"
            groups[kind]["params"].append(parameter)
        groups["vector"]["weight_decay"] = 0.0  # of biases and the gains of norms, as usual
        optimizer = self.make_optimizer(list(groups.values()))
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"] * (self.options.embedding_lr_scale if group["kind"] == "embedding" else 1)
        return optimizer

    # ---- training

    def on_fit_start(self) -> None:
        if isinstance(self.schedule, Cosine):  # its end can be that of this training
            self.lr_factor = until_end(self.schedule, self.trainer, self.data)
        # On a CPU caches decide, and measurements vary: "auto" is a constant there.
        if self.data.planner.auto and self.device.type == "cuda":
            with self.trainer.precision_plugin.train_step_context():
                tokens = find_device_tokens(self, lambda batch: self.summed_loss(batch)[0], self.data)
            self.data.planner.resolve_auto(tokens)

    def on_train_start(self) -> None:
        self.training_began = True

    def training_step(self, shard: StepShard, _: int) -> dict[str, Tensor]:
        """Take one optimizer step.

        Returns:
            "loss_sum", "nll_sum": summed over the target tokens of this process. "tokens": the target tokens of the
            step / number of processes. All three are 0 in a skipped step. "grad_norm": before clipping.
        """
        optimizer: Any = self.optimizers()
        raw_optimizer = self.trainer.optimizers[0]
        optimizer.zero_grad()
        loss_sum, nll = self._backward(shard)
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            scaler.unscale_(raw_optimizer)
        norm = clip_gradients(self.parameters(), self.options.clip_norm)
        finite = norm.detach().isfinite()
        self.skipped.count(finite)
        factor = self.lr_factor(self.global_step)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        step_if_finite(optimizer, raw_optimizer, finite, uses_grad_scaler=scaler is not None)
        self.data.stream.finished(shard)
        tokens = torch.full_like(loss_sum, shard.tgt_tokens / self.trainer.world_size)
        sums = {"loss_sum": loss_sum, "nll_sum": nll.sum(), "nll_of_texts": nll, "tokens": tokens}
        return {name: value.where(finite, 0.0) for name, value in sums.items()} | {"grad_norm": norm.detach()}

    def _backward(self, shard: StepShard) -> tuple[Tensor, Tensor]:
        """Accumulate the gradients of all micro-batches.

        Returns:
            The summed loss, and the negative log-likelihood of each text.
        """
        loss_sum = torch.zeros((), device=self.device)
        nll_sum = torch.zeros(len(self.data.corpus.train.texts), device=self.device)
        no_sync = getattr(self.trainer.strategy, "block_backward_sync", nullcontext)
        for position, (number, batch) in enumerate(shard.micro_batches, start=1):
            # A seed of 63 bits that is unrelated to those of other micro-batches.
            seeds = np.random.SeedSequence((self.seed, shard.epoch, shard.step, number)).generate_state(1, np.uint64)
            torch.manual_seed(int(seeds[0] >> np.uint64(1)))
            is_last = position == len(shard.micro_batches)
            with explain_out_of_memory(batch, self.data.planner.device_tokens):
                loss, nll = self.summed_loss(batch)
                # DDP averages gradients over processes, but a step needs their sum: multiply by the world size.
                # A loss that is not finite becomes NaN, and so do all gradients on all processes. Their norm alone
                # then decides whether the step is skipped.
                scale = torch.where(loss.detach().isfinite(), self.trainer.world_size / shard.tgt_tokens, torch.nan)
                with nullcontext() if is_last else no_sync():
                    self.manual_backward(loss * scale)
            loss_sum += loss.detach()
            nll_sum += nll
        if not shard.micro_batches:
            # Every process has to take part in the synchronisation of gradients.
            self.manual_backward(torch.stack([parameter.sum() * 0 for parameter in self.model.parameters()]).sum())
        return loss_sum, nll_sum

    def summed_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the training loss of a batch, and the negative log-likelihood of each text in it.

        Both are summed over target tokens.
        """
        options, src, src_lengths = self.options, batch.src, batch.src_lengths
        tgt_in, mask = self._decoder_inputs(batch), _src_mask(batch)
        if options.r_drop:
            # Both passes in one: every sentence twice, in neighbouring rows. One larger product is faster.
            src, tgt_in, src_lengths = (part.repeat_interleave(2, 0) for part in (src, tgt_in, src_lengths))
            mask = None if mask is None else mask.repeat_interleave(2, 0)
        guidance: float | Tensor = 0.0
        if self.guide is None:
            hidden = self.decode_hidden(src, mask, tgt_in, src_lengths=src_lengths)
        else:
            memory = self.model.encode(src, mask, src_lengths=src_lengths)
            hidden, attention, _ = self.model.run_decoder(tgt_in, self.model.start(memory), maps=True)
            assert attention is not None
            assert attention.cross is not None
            guidance = options.guided_alignment_weight * self.guide.loss(attention.cross, batch)
        kind = {"label_smoothing": options.label_smoothing, "r_drop": options.r_drop}
        parts = [hidden.loss(batch.tgt_out, positions, **kind) for positions in batch.tgt_positions]
        return torch.stack([loss for loss, _ in parts]).sum() + guidance, torch.stack([nll for _, nll in parts])

    def _decoder_inputs(self, batch: Batch) -> Tensor:
        """Return the target inputs: gold tokens, or with ``module.teacher_forcing`` below 1 some predictions."""
        forcing = self.options.teacher_forcing
        gold_probability = forcing(self.global_step) if callable(forcing) else forcing
        if gold_probability == 1:
            return batch.tgt_in
        is_gold = torch.rand(batch.tgt_in.shape, device=self.device) < gold_probability
        with torch.no_grad():
            memory = self.model.encode(batch.src, _src_mask(batch), src_lengths=batch.src_lengths)
            mixed = self.model.mix_inputs(batch.tgt_in, memory, is_gold)
        # Autocast would reuse the weights that it has converted without gradient (PyTorch issue 158232).
        torch.clear_autocast_cache()
        return mixed

    # ---- validation: greedy search, because it only has to rank checkpoints

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._evaluate(self.data.sets.validated[dataloader_idx], batch, self.greedy)

    def on_validation_epoch_end(self) -> None:
        self.results |= self._results(self.data.sets.validated, self.greedy)
        directions = self.data.sets.directions
        by_direction = {str(directions[name]): self._validation_scores(name) for name in self.data.sets.validated}
        self.validation_scores = {
            metric: fmean(scores[metric] for scores in by_direction.values())
            for metric in next(iter(by_direction.values()))
        }
        # logger=False: MetricsLogger logs them, because Lightning would log a validation after step n as step n - 1.
        metrics = {f"valid/{name}": value for name, value in self.validation_scores.items()}
        if len(by_direction) > 1:
            metrics |= {
                f"valid/{name}/{direction}": value
                for direction, scores in by_direction.items()
                for name, value in scores.items()
            }
        self.log_dict(metrics, sync_dist=True, logger=False)

    def _validation_scores(self, name: str) -> dict[str, float]:
        """Return the scores of a validation set whose results are complete."""
        scores, loss, *_ = self.results[name]
        if not math.isfinite(loss):
            raise DivergedError("the validation loss is not finite", self.trainer)
        further = {key: score.value for key, score in scores.metrics.items()}
        return {"bleu": scores.bleu, "chrf": scores.chrf, "loss": loss, **further}

    # ---- test

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        # In fp32, so that the losses of runs in different precisions can be compared.
        with torch.autocast(self.device.type, enabled=False):
            self._evaluate(self.data.sets.evaluated[dataloader_idx], batch, self.search)

    def on_test_epoch_end(self) -> None:
        self.results = self._results(self.data.sets.evaluated, self.search)

    def _evaluate(self, split: str, batch: Batch, search: Search) -> None:
        with explain_out_of_memory(batch, self.data.planner.device_tokens):
            self.evaluator.add(split, batch, search)

    def _results(self, splits: Iterable[str], search: Search) -> dict[str, SplitResult]:
        return {split: self.evaluator.take(split, search, self.data.sets, self.trainer) for split in splits}

    # ---- checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[FORMAT_KEY] = RUN_FORMAT
        checkpoint["tokenizer"] = self.tokenizer.digest
        checkpoint["optimizer"] = type(self.trainer.optimizers[0]).__name__

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Check a checkpoint, and replace its optimizer settings (betas, weight decay, …) by those of this run.

        Raises:
            HeedError: see `check_resumable`.
        """
        optimizer = self.configure_optimizers()
        check_resumable(
            checkpoint,
            Path(str(self.trainer.ckpt_path)),
            weights=self.state_dict(),
            tokenizer=self.tokenizer.digest,
            optimizer=type(optimizer).__name__,
            progress=fit_progress(self.trainer),
        )
        if not self.data.resume:
            adopt_checkpoint(checkpoint, is_mixture=self.data.corpus.train.is_mixture)
        groups = checkpoint["optimizer_states"][0]["param_groups"]
        for saved, group in zip(groups, optimizer.param_groups, strict=True):
            saved.update({setting: value for setting, value in group.items() if setting != "params"})
