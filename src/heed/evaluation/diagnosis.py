"""Why a model is bad: rules that are sure of a cause. ``diagnoses.toml`` has the sentences that say what to change.

A new rule is one entry of `BEFORE_TRAINING` or `AT_VALIDATION`, and its sentence.
"""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from heed.evaluation.parallel_text import LINES, Fault, Sides
from heed.evaluation.symptoms import find_symptoms

SENTENCES: Mapping[str, str] = tomllib.loads(Path(__file__).with_name("diagnoses.toml").read_text(encoding="utf-8"))
"""What is said, by the name of the diagnosis, with facts in braces."""
NOTABLE = 0.02  # fraction of the pairs from which on a training names a fault of its text
MILD = {"spaces", "decomposed", "tokenized", "lower_cased", "protected"}  # faults with which a model still learns well


def describe(fault: Fault) -> str:
    """Return the sentence for a fault of a text."""
    own = f"scored_{fault.name}"
    return SENTENCES[own if fault.split and own in SENTENCES else fault.name].format(fault)


def describe_differences(translations: Sequence[str], references: Sequence[str]) -> Iterator[str]:
    """Yield sentences about translations that are not written as the references are, by the faults of `LINES`."""
    sides = {"translations": translations, "references": references}
    for name, has in LINES.items():
        shares = {side: len([*filter(has, lines)]) / len(lines) for side, lines in sides.items()}
        few, many = sorted(shares, key=shares.__getitem__)
        if shares[many] - shares[few] > 0.05:
            yield f"{describe(Fault(name, shares[many], split=many))} Of the {few}, {100 * shares[few]:.3g}% do."
    words = [Counter(line.split(" ")[0] for line in lines) for lines in sides.values()]
    ((word, number),) = words[0].most_common(1)
    if word and number >= max(10, 0.9 * len(translations)) and words[1][word] <= 0.05 * len(references):
        yield f"Nearly all translations begin with {word!r}, but hardly any reference: delete what is no translation."


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a run before its first step and, from ``step`` on, at a validation. Losses: nats per token."""

    family: str
    dropout: float
    usual_lr: float | None  # a learning rate that suits the optimizer, if there is one for all models
    fine_tuned: bool
    pairs: int
    chars: int  # of both sides of the training text
    vocab: int
    warmup_steps: int
    planned_steps: float  # infinite without limit
    batch_tokens: int
    steps_per_epoch: float
    unigram_nll: float  # loss of a model that knows only how often each piece occurs
    cut: float  # fraction of the references that are longer than the length limit of their translations
    beyond: float  # fraction of the references that are longer than every training target
    unknown: float  # largest fraction of unknown characters, or words, among the pieces of a text
    dropped: float  # fraction of the training pairs that cleaning dropped
    target_length: float  # characters per source character of the training text, divided by that of the validation set
    text: Sides  # a sample of the training text in the direction of the validation set
    valid: Sides
    has_words: bool = False  # whether the pieces are words
    faults: Sequence[Fault] = ()  # of the sample, and of the sets that are scored
    step: int = 0  # of the validation
    nll: float = inf  # latest training loss
    lowest_nll: float = inf
    peak_lr: float = 0.0  # up to now
    loss: float = inf  # validation loss
    best_loss: float = inf
    loss_earlier: float = inf  # validation loss after three quarters of the steps, if validations are frequent enough
    best_step: int = 0  # of the validation with the lowest loss
    bleu: float = 0.0
    bleu_before: float = 0.0  # best BLEU of earlier validations
    bleu_earlier: float = inf  # BLEU, likewise
    symptoms: Mapping[str, float] = field(default_factory=dict)  # see `symptom_shares`
    padding: float = 0.0  # fraction of all token positions
    skipped: int = 0  # steps without a finite loss and gradient
    ends: bool = False  # whether this is the last validation

    @property
    def short(self) -> float:
        """Fraction of the translations that are empty, or less than half as long as the reference."""
        return self.symptoms["empty"] + self.symptoms["too short"]


def symptom_shares(text: Sides, valid: Sides, translations: Sequence[str]) -> dict[str, float]:
    """Return the fraction of the translations with each symptom of `find_symptoms`, and with two others.

    "source language": translations in the language of the sources of ``text``. "same": the most frequent translation,
    unless references are as uniform.
    """
    found: dict[str, Sequence[int]] = {**find_symptoms(valid.src, valid.tgt, translations)}
    languages = text.languages(Sides(valid.src, translations)) if len(text) else []
    found["source language"] = [row for row, sides in enumerate(languages) if sides == (1, 1)]
    most, _ = Counter(translations).most_common(1)[0]
    found["same"] = [row for row, line in enumerate(translations) if line == most != valid.tgt[row]]
    return {name: len(rows) / len(translations) for name, rows in found.items()}


def _is_short(run: Facts) -> bool:
    return not run.fine_tuned and run.planned_steps < 300


def _is_late(run: Facts) -> bool:
    """Return whether the model should translate: training ends, or half of it and twice the warm-up are over."""
    return run.ends or run.step >= max(min(run.planned_steps / 2, 5_000), 2 * run.warmup_steps, 500)


def _improves(run: Facts) -> bool:
    """Return whether the model is the best so far, and BLEU has risen by a fifth in the last quarter of the steps."""
    return run.step == run.best_step and run.bleu > 1.2 * run.bleu_earlier


def _still_learns(run: Facts) -> bool:
    """Return whether BLEU rises, or the validation loss has fallen by 3 % in the last quarter, or may have."""
    return _improves(run) or (run.step == run.best_step and run.loss < 0.97 * run.loss_earlier)


def _is_stuck(run: Facts) -> bool:
    """Return whether the training loss is that of a model that ignores all context, 200 steps after the warm-up."""
    return run.step >= run.warmup_steps + 200 and run.dropout < 0.6 and inf > run.nll > run.unigram_nll - 0.3


def is_notable(fault: Fault) -> bool:
    """Return whether a fault is large enough to make a model or its scores bad."""
    is_mild = fault.name in MILD or (fault.name == "duplicates" and fault.split != "")
    return fault.share >= NOTABLE and not is_mild


def _has_faults(run: Facts) -> bool:
    """Return whether a part of the text has faults."""
    return any(map(is_notable, run.faults))


def _is_explained(run: Facts) -> bool:
    """Return whether something that is known before the first step makes translations bad."""
    return _has_faults(run) or any(rule(run) for rule in BEFORE_TRAINING.values())


def _ignores_source(run: Facts) -> bool:
    """Return whether the model writes the target language, but no translations, and no longer improves."""
    is_learned = _is_late(run) and run.step > run.best_step and run.nll < run.unigram_nll - 1 and run.short < 0.3
    return is_learned and (run.bleu < 1 or run.symptoms["same"] > 0.3) and not _is_explained(run)


BEFORE_TRAINING: Mapping[str, Callable[[Facts], bool]] = {
    "cleaning": lambda run: run.dropped > 0.3,
    "dropout": lambda run: run.dropout >= 0.6,
    "step_size": lambda run: _is_short(run) and run.steps_per_epoch < 20,
    "few_steps": lambda run: _is_short(run) and run.steps_per_epoch >= 20,
    "warm_up": lambda run: run.warmup_steps > run.planned_steps / 2,
    # Against the rule of tokenizer.vocab_size=auto, without the alphabet.
    "vocabulary": lambda run: not run.fine_tuned and run.vocab > 3 * min(32_000, 4 * run.chars**0.5) + 500,
    "length_limit": lambda run: run.cut > 0.1,
    "short_targets": lambda run: run.target_length < 0.7 and not _has_faults(run),
    "short_text": lambda run: run.beyond > 0.1 and run.target_length >= 0.7,
    "unknown_characters": lambda run: run.unknown > 0.05 and not run.has_words and not run.fine_tuned,
    "unknown_words": lambda run: run.unknown > 0.1 and run.has_words and not run.fine_tuned,
    "other_vocabulary": lambda run: run.unknown > (0.1 if run.has_words else 0.05) and run.fine_tuned,
}
"""The rules for what is known before the first step, by the name of the diagnosis."""
AT_VALIDATION: Mapping[str, Callable[[Facts], bool]] = {
    "high_learning_rate": lambda run: _is_stuck(run) and run.usual_lr is not None and run.peak_lr >= 10 * run.usual_lr
    and run.nll <= run.lowest_nll + 0.7,
    "rising_loss": lambda run: run.dropout < 0.6 and run.nll > run.lowest_nll + 0.7,
    "low_learning_rate": lambda run: _is_stuck(run) and run.usual_lr is not None and run.peak_lr <= run.usual_lr / 20,
    "no_warm_up": lambda run: _is_stuck(run) and run.warmup_steps < 10 and run.family == "transformer"
    and 5e-5 < run.peak_lr < 0.01,
    "memorised": lambda run: run.nll < 0.5 * run.loss and run.loss > 1.1 * run.best_loss
    and run.bleu < 1.02 * run.bleu_before,
    "ended_early": lambda run: run.ends and _improves(run) and run.bleu > 1 and not _is_explained(run),
    "few_pairs": lambda run: _ignores_source(run) and run.pairs < 5_000 and not run.fine_tuned,
    "does_not_translate": lambda run: _ignores_source(run) and (run.pairs >= 5_000 or run.fine_tuned),
    "source_language": lambda run: _is_late(run) and not _is_explained(run) and not _is_stuck(run)
    and max(run.symptoms["source language"], run.symptoms["copied source"]) > 0.1,
    "short_translations": lambda run: _is_late(run) and not _is_explained(run) and not _is_stuck(run)
    and not _still_learns(run) and run.short >= 0.3 and (run.bleu >= 1 or run.step > run.best_step),
    "undertrained": lambda run: run.ends and run.step == run.best_step and not _improves(run) and not _is_stuck(run)
    and not _is_explained(run) and (run.symptoms["repeats"] > 0.2 or run.bleu < 1),
    "padding": lambda run: run.padding > 0.5,
    "skipped_steps": lambda run: run.skipped > max(20, 0.1 * run.step),
}  # fmt: skip
"""The rules for what a validation shows."""


def diagnose(run: Facts) -> dict[str, str]:
    """Return the sentences of the diagnoses that are sure, by name."""
    if run.step:
        return {name: SENTENCES[name].format(run) for name, rule in AT_VALIDATION.items() if rule(run)}
    notable = filter(is_notable, run.faults)
    faults = {f"{fault.split}.{fault.name}".lstrip("."): describe(fault) for fault in notable}
    return faults | {name: SENTENCES[name].format(run) for name, rule in BEFORE_TRAINING.items() if rule(run)}


def compare_with_start(scores: Mapping[str, tuple[float, float]], validated: Collection[str]) -> dict[str, str]:
    """Return the sentences about sets whose BLEU fell by more than 2 in fine-tuning, given BLEU before and after."""
    falls: defaultdict[str, list[str]] = defaultdict(list)
    for name, (before, after) in scores.items():
        if after < before - 2:
            rule = "worse_than_before" if name in validated else "forgotten"
            falls[rule].append(f"{name} fell from BLEU {before:.1f} to {after:.1f}")
    return {rule: SENTENCES[rule].format(", ".join(found)) for rule, found in falls.items()}
