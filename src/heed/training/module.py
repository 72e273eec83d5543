"""What Lightning trains: one batch is this process's share of one optimizer step (see data/plan.py)."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from heed.data.batch import Batch
from heed.data.datamodule import StepShard, TranslationData
from heed.data.tokenizer import Tokenizer
from heed.decoding import GreedySearch, Hypothesis, Search
from heed.errors import HeedError
from heed.evaluation.comet import Comet
from heed.evaluation.scores import Scores, corpus_scores
from heed.inference.model_folder import refuse_another_architecture
from heed.models.seq2seq import TrainableSeq2Seq
from heed.options import AtLeast0, AtLeast1, NotNegative, Share
from heed.training.callbacks.checkpoints import find_checkpoints
from heed.training.loss import cross_entropy, r_drop, zero_loss
from heed.training.memory import find_device_tokens, out_of_memory_explained
from heed.training.nonfinite import SkippedSteps, diverged, step_if_finite


class TranslationModule(L.LightningModule):
    """Trains a model by plan, translates the validation set greedily now and then, and test sets with ``search``.

    The gradient of a step is that of the mean loss over all its target tokens, however many micro-batches and devices
    it was cut into; dropout too depends on (seed, step, micro-batch) alone.
    """

    def __init__(
        self,
        model: TrainableSeq2Seq,
        tokenizer: Tokenizer,
        *,
        optimizer: Callable[[Iterable[dict[str, Any]]], Optimizer],
        schedule: Callable[[int], float],
        label_smoothing: Share,
        r_drop: NotNegative,
        embedding_lr_scale: NotNegative,
        clip_norm: NotNegative,
        max_skipped_steps: AtLeast1,
        search: Search,
        seed: AtLeast0,
        comet: Comet | None = None,
    ) -> None:
        """
        Args:
            r_drop: α of `heed.training.loss.r_drop`, 0 for none.
            embedding_lr_scale: by which the learning rate of embedding tables is multiplied. A token's row is asked for now
                and then, the other weights in every step, so that one rate for both is too low for it or too high for
                them.
            clip_norm: 0 leaves gradients alone.
            max_skipped_steps: steps in a row without a finite loss and gradient after which training stops.
            comet: a metric that every validation computes beside BLEU and chrF.
        """
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self.tokenizer = tokenizer
        self.make_optimizer = optimizer
        self.schedule = schedule
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop
        self.embedding_lr_scale = embedding_lr_scale
        self.clip_norm = clip_norm
        self.search = search.with_text(tokenizer.decode_tgt)
        self.greedy = GreedySearch(max_length_factor=search.max_length_factor, max_length_extra=search.max_length_extra)
        self.seed = seed
        self.comet = comet
        self.skipped = SkippedSteps(limit=max_skipped_steps)
        self.training_began = False
        """Whether a checkpoint to begin with, if any, has been restored."""
        self.validation_scores: dict[str, float] = {}
        """"bleu", "chrf", "loss" and perhaps "comet" of the latest validation."""
        self.results: dict[str, tuple[Scores, float, list[str]]] = {}
        """Per split, as last evaluated: its scores, its loss and its translations."""
        self.decode_seconds: dict[str, float] = {}
        """Per split, as last evaluated: what the search took, summed over devices."""
        self._evaluated: dict[str, list[tuple[int, Hypothesis]]] = {}
        self._losses: dict[str, tuple[float, int]] = {}
        self._seconds: dict[str, float] = {}

    @property
    def data(self) -> TranslationData:
        data = self.trainer.datamodule
        assert isinstance(data, TranslationData)
        return data

    def configure_optimizers(self) -> Optimizer:
        maps = {
            parameter
            for module in self.model.modules()
            if isinstance(module, (nn.Linear, nn.RNNBase, nn.RNNCellBase))
            for parameter in module.parameters(recurse=False)
        }
        kinds: dict[str, list[nn.Parameter]] = {"matrix": [], "table": [], "vector": []}
        for parameter in self.parameters():
            kinds["vector" if parameter.dim() <= 1 else "matrix" if parameter in maps else "table"].append(parameter)
        # Decay pulls on matrices and tables alone: a bias or a norm's gain has no reason to be small.
        undecayed = {"vector": {"weight_decay": 0.0}}
        optimizer = self.make_optimizer(
            [{"kind": kind, "params": params, **undecayed.get(kind, {})} for kind, params in kinds.items()]
        )
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"] * (self.embedding_lr_scale if group["kind"] == "table" else 1.0)
        return optimizer

    def on_train_start(self) -> None:
        self.training_began = True

    def on_fit_start(self) -> None:
        if self.data.planner.auto:
            self.data.planner.device_tokens = find_device_tokens(self)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["tokenizer"] = self.tokenizer.hash
        checkpoint["optimizer"] = type(self.trainer.optimizers[0]).__name__
        checkpoint["skipped_steps"] = self.skipped.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        path = Path(str(self.trainer.ckpt_path))
        refuse_another_architecture(checkpoint["state_dict"], self.state_dict(), path)
        if checkpoint.get("tokenizer", self.tokenizer.hash) != self.tokenizer.hash:
            raise HeedError(
                f"{path} was trained with another tokenizer, so that its ids mean other pieces: give the same data and "
                "tokenizer, or take the weights alone from its finished run with init_from=."
            )
        optimizer = self.configure_optimizers()
        name, before = type(optimizer).__name__, checkpoint.get("optimizer", "another optimizer")
        if name != before:
            raise HeedError(
                f"{path} remembers gradients as {before} does, and {name} cannot go on from that: give the same "
                "optimizer, or take the weights alone from its finished run with init_from=."
            )
        # Lightning ignores what it does not find of its own progress, and would begin at step 0 with trained weights.
        if not _has_keys_of(self.trainer.fit_loop.state_dict(), checkpoint["loops"]["fit_loop"]):
            raise HeedError(f"{path} does not tell how far training had come: name another with ckpt_path=.")
        if "skipped_steps" in checkpoint:
            self.skipped.load_state_dict(checkpoint["skipped_steps"])
        # What a run is told stands over what a checkpoint remembers of betas, decay and the like.
        for saved, told in zip(checkpoint["optimizer_states"][0]["param_groups"], optimizer.param_groups, strict=True):
            saved.update({setting: value for setting, value in told.items() if setting != "params"})

    def training_step(self, share: StepShard, _: int) -> dict[str, Tensor]:
        optimizer: Any = self.optimizers()
        raw = self.trainer.optimizers[0]
        optimizer.zero_grad()
        loss = torch.zeros((), device=self.device)
        nll = torch.zeros((), device=self.device)
        for position, (number, batch) in enumerate(share.micro_batches, start=1):
            torch.manual_seed(_mix(self.seed, share.epoch, share.step, number))
            with out_of_memory_explained(batch, self.data.planner.device_tokens):
                summed, plain = self.summed_loss(batch)
                # DDP averages over processes what should be a sum: multiply by their number. A loss that is not finite
                # makes all gradients so, on all processes: those alone then tell whether the step is taken.
                scale = torch.where(summed.detach().isfinite(), self.trainer.world_size / share.tgt_tokens, torch.nan)
                part = summed * scale
                with nullcontext() if position == len(share.micro_batches) else self._without_sync():
                    self.manual_backward(part)
            loss += summed.detach()
            nll += plain
        if not share.micro_batches:
            self.manual_backward(zero_loss(self.model))
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            scaler.unscale_(raw)
        norm = nn.utils.clip_grad_norm_(self.parameters(), self.clip_norm or float("inf"))
        finite = norm.detach().isfinite()
        self.skipped.count(finite)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * self.schedule(self.global_step)
        step_if_finite(optimizer, raw, finite, scaled=scaler is not None)
        self.data.cursor = (share.epoch, share.step + 1)
        tokens = torch.full_like(loss, share.tgt_tokens / self.trainer.world_size)
        sums = {"loss_sum": loss, "nll_sum": nll, "tokens": tokens}
        return {**{name: value.where(finite, 0.0) for name, value in sums.items()}, "grad_norm": norm.detach()}

    def summed_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of a micro-batch, summed over its target tokens: what is minimised, and the plain negative log-likelihood."""
        given = batch.src, batch.src_mask, batch.tgt_in
        if not self.r_drop:
            output = self.model.decode_hidden(*given)
            return cross_entropy(output, batch.tgt_out, label_smoothing=self.label_smoothing)
        # Two passes in one, every sentence twice, side by side: larger products take less time.
        both = self.model.decode_hidden(*(part.repeat_interleave(2, 0) for part in given))
        passes = both[0::2], both[1::2]
        return r_drop(passes, batch.tgt_out, label_smoothing=self.label_smoothing, alpha=self.r_drop)

    def _without_sync(self) -> Any:
        strategy = self.trainer.strategy
        return strategy.block_backward_sync() if hasattr(strategy, "block_backward_sync") else nullcontext()

    # ---- evaluation: greedy while training (it selects), ``search`` for the final scores

    def validation_step(self, batch: Batch, _: int) -> None:
        self._evaluate("valid", batch, self.greedy)

    def on_validation_epoch_end(self) -> None:
        scores, loss, translations = self.results["valid"] = self._gather("valid")
        self.validation_scores = {"bleu": scores.bleu, "chrf": scores.chrf, "loss": loss}
        if not math.isfinite(loss):
            last = find_checkpoints(self.trainer.callbacks).last
            raise diverged("the validation loss is not finite", self.global_step, last[0] if last else None)
        if self.comet is not None:
            valid = self.data.datasets["valid"]
            comet = self.comet.score(list(valid["src"]), translations, [list(valid["tgt"])])
            self.validation_scores["comet"] = comet.value
        # The journal tells the loggers: Lightning would, of a validation after step n, as of step n - 1.
        metrics = {f"valid/{name}": value for name, value in self.validation_scores.items()}
        self.log_dict(metrics, sync_dist=True, logger=False)

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._evaluate(self.data.evaluated[dataloader_idx], batch, self.search)

    def on_test_epoch_end(self) -> None:
        self.results = {split: self._gather(split) for split in self.data.evaluated}

    def _evaluate(self, split: str, batch: Batch, search: Search) -> None:
        with out_of_memory_explained(batch, self.data.planner.device_tokens):
            self._evaluate_in_memory(split, batch, search)

    def _evaluate_in_memory(self, split: str, batch: Batch, search: Search) -> None:
        output = self.model.decode_hidden(batch.src, batch.src_mask, batch.tgt_in)
        _, nll = cross_entropy(output, batch.tgt_out, label_smoothing=0.0)
        total, tokens = self._losses.get(split, (0.0, 0))
        self._losses[split] = (total + nll.item(), tokens + batch.tgt_tokens)
        # Search in fp32, so that a translation never depends on what else is in its batch.
        start = time.perf_counter()
        with torch.autocast(self.device.type, enabled=False):
            hypotheses = search(self.model, batch.src, batch.src_mask)
        self._seconds[split] = self._seconds.get(split, 0.0) + time.perf_counter() - start
        self._evaluated.setdefault(split, []).extend(
            (row, best[0]) for row, best in zip(batch.index.tolist(), hypotheses, strict=True)
        )

    def _gather(self, split: str) -> tuple[Scores, float, list[str]]:
        """All processes' translations in the order of the split, scored; the loss in nats per target token."""
        mine = (
            [(row, h.tokens) for row, h in self._evaluated.pop(split, [])],
            self._losses.pop(split, (0.0, 0)),
            self._seconds.pop(split, 0.0),
        )
        parts = [mine]
        if self.trainer.world_size > 1:
            parts = [mine] * self.trainer.world_size
            torch.distributed.all_gather_object(parts, mine)
        rows = sorted(row for found, _, _ in parts for row in found)
        translations = self.tokenizer.decode_tgt([tokens for _, tokens in rows])
        references = list(self.data.datasets[split]["tgt"])
        assert len(rows) == len(references), "each sentence is evaluated exactly once"
        loss = sum(total for _, (total, _), _ in parts) / sum(tokens for _, (_, tokens), _ in parts)
        self.decode_seconds[split] = sum(seconds for _, _, seconds in parts)
        return corpus_scores(translations, references, tgt_lang=self.data.corpus.tgt_lang), loss, translations


def _has_keys_of(expected: Any, found: Any) -> bool:
    """Whether one nested mapping has all keys of another, at every level."""
    if not isinstance(expected, Mapping):
        return not isinstance(found, Mapping)
    return isinstance(found, Mapping) and all(
        key in found and _has_keys_of(value, found[key]) for key, value in expected.items()
    )


def _mix(*numbers: int) -> int:
    """One well-spread seed out of several small numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
