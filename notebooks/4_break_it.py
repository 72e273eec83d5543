# %% [markdown]
# # 4 Break it
#
# You learn
#
# - that an attention map shows where a model looks, and an intervention whether it matters;
# - how to force attention, and watch *er*, *sie* and *es* change;
# - which heads a model needs, and which of them carries the antecedent of a pronoun.
#
# A transformer is trained on the built-in corpus first. `HEED_NOTEBOOK_QUICK=1` shortens everything, as a test.

# %%
import os
import re

import numpy as np
from matplotlib import pyplot as plt

import heed
from heed.comparison.challenge import ContrastivePair, built_in_challenge
from heed.evaluation.words import split_punctuation
from heed.interventions import Edit, ablate, force

QUICK = os.environ.get("HEED_NOTEBOOK_QUICK") == "1"

# %%
run = heed.train(
    model="transformer",
    name="break-it",
    logger="none",
    schedule="cosine",
    **{
        "data.train": 1000 if QUICK else 24_000,
        "data.valid": 20 if QUICK else 200,
        "data.test": 20 if QUICK else 200,
        "data.long": 5,
        "trainer.max_steps": 20 if QUICK else 1500,
        "trainer.validate_every": 20 if QUICK else 750,
        "schedule.warmup_steps": 2 if QUICK else 100,
        "callbacks.attention_maps": None,
    },
)  # or heed.TrainedRun("runs/break-it/TIME") of an earlier training
model = run.load(device="cpu")
print(run)

# %% [markdown]
# ## 1. Two sentences, one word apart
#
# "It" is the cow in the first sentence and the river in the second one. German has to decide: *die Kuh*, *der Fluss*.

# %%
sentences = [
    "The old cow didn't cross the river because it was too lazy.",
    "The old cow didn't cross the river because it was too deep.",
]
targets = [
    "Die alte Kuh überquerte den Fluss nicht, weil sie zu faul war.",
    "Die alte Kuh überquerte den Fluss nicht, weil er zu tief war.",
]
print(*model.translate(sentences), sep="\n")
cow, river = model.attend(sentences, targets)
figure, axes = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
for ax, pair in zip(axes, (cow, river), strict=True):
    pair.plot(kind="encoder_self", ax=ax)
assert QUICK or model.translate(sentences) == targets

# %% [markdown]
# **Question.** From these maps alone: where does the model decide between *sie* and *er*?
#
# <details><summary>Answer</summary>
#
# One cannot know. A head that looks at the right noun may have no influence, and the information may pass through words
# in between. The rest of this notebook changes the attention.
# </details>

# %% [markdown]
# ## 2. Force a word
#
# We force attention to "river", and translate the sentence about the cow again: first all encoder rows of "it", then
# the cross-attention of the state that predicts *sie*. The second one turns *sie* into *er*. The maps show the forced
# row, where "river" has all the weight.

# %%
_, encoder = force(model, sentences[0], "encoder: it → river", target=targets[0])
before, cross = force(model, sentences[0], "cross: sie → river", target=targets[0])
print("before:        ", before.target)
print("encoder forced:", encoder.target)
print("cross forced:  ", cross.target)
figure, axes = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
for ax, pair in zip(axes, (before, cross), strict=True):
    pair.plot(kind="cross", layer=-1, head=1, ax=ax)
assert QUICK or cross.target == targets[0].replace("sie", "er")

# %% [markdown]
# **Question.** Why are all layers and heads forced at once?
#
# <details><summary>Answer</summary>
#
# If one head is forced, others can still carry the information. Try `encoder layer 1 head 2: it → river`.
# </details>

# %% [markdown]
# ## 3. In how many sentences?
#
# One example proves nothing. In pronoun sentences of the challenge set, we force "it" to its wrong antecedent, in the
# encoder, or in the cross-attention of the state that predicts the pronoun, or in both. The bars show how often the
# pronoun changes. As a control, we force it to the right antecedent, where nothing should change. A wrong word in the
# cross-attention changes the most.

# %%
contrasts = [
    contrast
    for contrast in built_in_challenge(4 if QUICK else 60)
    if contrast.tag == "pronoun" and split_punctuation(contrast.src)[contrast.antecedent["pronoun"]] == "it"
]
PRONOUN = re.compile(r"\b(er|sie|es|ihn)\b")


def last_pronoun(text: str) -> str | None:
    """Return the pronoun of the subordinate clause."""
    return (PRONOUN.findall(text) or [None])[-1]


def word(contrast: ContrastivePair, name: str) -> str:
    """Return an annotated source word, with its number among equal words: "cow", "bear#2"."""
    words = [each.casefold() for each in split_punctuation(contrast.src)]
    position = contrast.antecedent[name]
    return f"{words[position]}#{words[: position + 1].count(words[position])}"


# %%
changed = {}
for place in ("encoder", "cross", "both"):
    for antecedent in ("right", "wrong"):
        flips, total = 0, 0
        for contrast in contrasts:
            plain = model.translate([contrast.src], beam=1)[0]
            if (pronoun := last_pronoun(plain)) is None:
                continue
            number, noun = PRONOUN.findall(plain).count(pronoun), word(contrast, antecedent)
            rows = {"encoder": f"encoder: it → {noun}", "cross": f"cross: {pronoun}#{number} → {noun}"}
            instructions = list(rows.values()) if place == "both" else rows[place]
            _, after = force(model, contrast.src, instructions, target=plain, beam=1)
            flips += last_pronoun(after.target) != pronoun
            total += 1
        changed[place, antecedent] = flips / max(total, 1)
        print(f"{place:<8} → {antecedent:<5} antecedent: {flips} of {total} pronouns change")

# %%
figure, ax = plt.subplots(figsize=(6, 3))
for number, antecedent in enumerate(("right", "wrong")):
    values = [100 * changed[place, antecedent] for place in ("encoder", "cross", "both")]
    ax.bar([x + 0.4 * number for x in range(3)], values, width=0.38, label=f"to the {antecedent} antecedent")
ax.set_xticks([x + 0.2 for x in range(3)], ["encoder", "cross", "both"])
ax.set_ylabel("pronouns that change, %")
ax.legend()
assert QUICK or changed["cross", "wrong"] > max(changed["cross", "right"], changed["encoder", "wrong"])

# %% [markdown]
# **Questions.** Where is the decision made: in the encoder or in the decoder? What does the control tell you?
#
# <details><summary>Answers</summary>
#
# Where forcing changes more pronouns: in this model, when the decoder predicts the pronoun. Pronouns that change
# although the *right* antecedent was forced show that the intervention itself does damage: the state has lost all other
# words, and some of them it needs. The effect of the wrong antecedent is what goes beyond this.
# </details>

# %% [markdown]
# ## 4. Break a whole attention
#
# Now all rows at once: switch an attention off, make it uniform, or let each position attend to the same position. The
# table shows BLEU on the test set.

# %%
read = (run.path / "translations").joinpath
sources, references = (read(f"test.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("src", "ref"))
kinds, breaks = ("cross", "encoder_self", "decoder_self"), ("off", "uniform", "diagonal")
whole = model.evaluate(sources, references, beam=1).bleu
bleu = [
    [model.with_edits([Edit(kind, how)]).evaluate(sources, references, beam=1).bleu for how in breaks] for kind in kinds
]
figure, ax = plt.subplots(figsize=(5, 3.5))
ax.imshow(bleu, cmap="Blues", vmin=0, vmax=100)
ax.set_xticks(range(3), breaks)
ax.set_yticks(range(3), kinds)
for row, values in enumerate(bleu):
    for column, value in enumerate(values):
        ax.text(column, row, f"{value:.1f}", ha="center", va="center", color="white" if value > 50 else "black")
ax.set_title(f"BLEU; unchanged: {whole:.1f}")
print(f"unchanged {whole:.1f}, best broken one {np.max(bleu):.1f}, worst {np.min(bleu):.1f}")
assert QUICK or np.max(bleu[0]) < whole

# %% [markdown]
# **Questions.** Without which attention does nothing remain? Which can be replaced by a simple pattern, and why?
#
# <details><summary>Answers</summary>
#
# Read the rows of the table. Without cross-attention the decoder knows nothing of the source. Where self-attention is
# off, the residual connection still passes on each word's own vector.
# </details>

# %% [markdown]
# ## 5. Which heads matter?
#
# `ablate` switches off one head at a time (Michel et al. 2019). The points show the BLEU that is lost without it, with
# 95 % bootstrap intervals.

# %%
few = slice(0, 10 if QUICK else 100)
scores, heads = ablate(model, sources[few], references[few], beam=1)
names = [f"{head.attention}, layer {head.layer + 1}, head {head.head + 1}" for head in heads]
lost = np.array([head.lost["BLEU"][0] for head in heads])
low, high = np.array([head.lost["BLEU"][1] for head in heads]).T
figure, ax = plt.subplots(figsize=(7, 6), layout="constrained")
ax.errorbar(lost, range(len(heads)), xerr=[np.maximum(lost - low, 0), np.maximum(high - lost, 0)], fmt="o", capsize=3)
ax.set_yticks(range(len(heads)), names)
ax.invert_yaxis()
ax.axvline(0, color="0.5")
ax.set_xlabel("BLEU lost without the head")
print(f"{(low > 0).sum()} of {len(heads)} heads matter on their own; the most important: {names[lost.argmax()]}")

# %% [markdown]
# Heads can stand in for each other. So we also switch off more and more heads, the least important first. The curve
# shows how many can go.

# %%
order = lost.argsort()
curve = []
for count in range(len(heads) + 1):
    edits = [Edit(heads[i].attention, "off", layers=[heads[i].layer], heads=[heads[i].head]) for i in order[:count]]
    curve.append(model.with_edits(edits).evaluate(sources[few], references[few], beam=1).bleu)
ax = plt.subplots(figsize=(6, 3))[1]
ax.plot(curve, "o-")
ax.set(xlabel="heads switched off", ylabel="BLEU")
kept = next(count for count, value in enumerate(curve) if value < curve[0] - 1 or count == len(heads))
print(f"{max(kept - 1, 0)} of {len(heads)} heads can go before BLEU has fallen by more than 1")

# %% [markdown]
# **Question.** Why can several heads go together, although each of them matters a little, or the other way round?
#
# <details><summary>Answer</summary>
#
# Importance is measured with all other heads in place. Two heads that do the same are both unimportant alone, and
# important together.
# </details>

# %% [markdown]
# ## 6. Patching: which head carries the antecedent?
#
# We score both pronouns in the *lazy* sentence (the cow), but give a single head its weights from the *deep* sentence
# (the river): an encoder head in all rows, a cross-attention head in the row that predicts the pronoun. Each cell shows
# by how much log p(*er*) − log p(*sie*) rises. One dark cell carries the antecedent: its weights alone turn the cow
# into the river.

# %%
with_sie, with_er = targets[0], targets[0].replace("sie", "er")
position = cow.tgt_pieces.index("▁sie")
assert QUICK or cow.cross.shape == river.cross.shape, "choose two sentences of equally many pieces"


def preference(translator: heed.Translator) -> float:
    """Return log p of the translation with "er" minus that with "sie"."""
    er, sie = translator.score([sentences[0]] * 2, [with_er, with_sie])
    return er - sie


own = preference(model)
patches = {"encoder_self": (river.encoder_self, None), "cross": (river.cross, [position])}
rise = {
    kind: np.array(
        [
            [
                preference(model.with_edits([Edit(kind, weights, [layer], [head], positions)])) - own
                for head in range(weights.shape[1])
            ]
            for layer in range(weights.shape[0])
        ]
    )
    for kind, (weights, positions) in patches.items()
}

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 2.6), layout="constrained")
largest = max(values.max() for values in rise.values())
print(f"log p(er) − log p(sie) without a patch: {own:.2f}")
for ax, (kind, values) in zip(axes, rise.items(), strict=True):
    ax.imshow(values, cmap="Blues", vmin=0, vmax=largest)
    ax.set(xlabel="head", ylabel="layer", title=kind)
    ax.set_xticks(range(values.shape[1]), range(1, values.shape[1] + 1))
    ax.set_yticks(range(values.shape[0]), range(1, values.shape[0] + 1))
    layer, head = np.unravel_index(values.argmax(), values.shape)
    print(f"{kind}: layer {layer + 1}, head {head + 1} raises it most, by {values.max():.2f}")
assert QUICK or own < 0 < own + rise["cross"].max()

# %% [markdown]
# The same head in both sentences, in the row that predicts the pronoun:

# %%
layer, head = np.unravel_index(rise["cross"].argmax(), rise["cross"].shape)
figure, ax = plt.subplots(figsize=(9, 2.5), layout="constrained")
for shift, (name, pair) in enumerate({"lazy": cow, "deep": river}.items()):
    weights = pair.cross[layer, head, position]
    ax.bar(np.arange(len(weights)) + 0.4 * shift, weights, width=0.38, label=name)
    print(f"{name}: it attends most to {pair.src_pieces[weights.argmax()]}")
ax.set_xticks(np.arange(len(cow.src_pieces)) + 0.2, cow.src_pieces, rotation=90)
ax.set_ylabel("weight")
_ = ax.legend()

# %% [markdown]
# **Question.** How can this head know which noun to attend to, if no encoder row matters?
#
# <details><summary>Answer</summary>
#
# Its query comes from a decoder state, which other cross-attention heads have told about *lazy* or *deep* by then, and
# its keys carry what each noun is. Train with another seed: does a head at the same place do the same work?
# </details>

# %%
plt.show()  # as a script; a notebook has shown the figures already
