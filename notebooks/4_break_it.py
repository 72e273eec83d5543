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
from heed import synthetic
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
cow, river = model.attend(sentences)
print(cow.target, river.target, sep="\n")
figure, axes = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
for ax, pair in zip(axes, (cow, river), strict=True):
    pair.plot(kind="encoder_self", ax=ax)
assert QUICK or (" sie " in cow.target and " er " in river.target)

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
# We force all encoder heads of "it" to attend to "river" only, and translate again.

# %%
instruction = "encoder: it → river"
before, after = force(model, sentences[0], instruction)
print("before:", before.target)
print("after: ", after.target)
row = before.src_pieces.index("▁it")
figure, axes = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
for ax, pair in zip(axes, (before, after), strict=True):
    pair.plot(kind="encoder_self", layer=0, head=0, ax=ax)
print('forced row of "it" in all layers and heads:', after.encoder_self[:, :, row].max(-1).min())

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
# pronoun changes. As a control, we force it to the right antecedent, where nothing should change.

# %%
contrasts = [
    contrast
    for contrast in synthetic.challenge(seed=1, per_tag=4 if QUICK else 60)
    if contrast.tag == "pronoun" and synthetic.split_punctuation(contrast.src)[contrast.antecedent["pronoun"]] == "it"
]
PRONOUN = re.compile(r"\b(er|sie|es|ihn)\b")


def last_pronoun(text: str) -> str | None:
    """Return the pronoun of the subordinate clause."""
    return (PRONOUN.findall(text) or [None])[-1]


def word(contrast: synthetic.ContrastivePair, name: str) -> str:
    """Return an annotated source word, with its number among equal words: "cow", "bear#2"."""
    words = [each.casefold() for each in synthetic.split_punctuation(contrast.src)]
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
assert QUICK or changed["encoder", "wrong"] > changed["encoder", "right"]

# %% [markdown]
# **Questions.** Where is the decision made: in the encoder or in the decoder? What does the control tell you?
#
# <details><summary>Answers</summary>
#
# Where forcing changes more pronouns. If forcing to the *right* antecedent also changes pronouns, the intervention
# itself does damage: "it" has lost other words that it needs.
# </details>

# %% [markdown]
# ## 4. Break a whole attention
#
# Now all rows at once: switch an attention off, make it uniform, or let each position attend to the same position. The
# table shows BLEU on the test set.

# %%
read = (run.path / "translations").joinpath
sources, references = (read(f"test.{side}").read_text(encoding="utf-8").splitlines() for side in ("src", "ref"))
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
# Without cross-attention the decoder knows nothing of the source. The others are the paler or darker rows of the table:
# self-attention in the decoder mostly tells what has been said already, and a residual connection keeps each word's own
# information.
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
# We translate the *lazy* sentence (the cow), but give a single encoder head its weights from the *deep* sentence (the
# river). Each cell shows by how much log p(*er*) − log p(*sie*) rises. A dark cell is a head that carries the
# antecedent.

# %%
good = cow.target if not QUICK else "Die alte Kuh überquerte den Fluss nicht, weil sie zu faul war."
assert cow.encoder_self.shape == river.encoder_self.shape, "choose two sentences of equally many pieces"
bad = good.replace(" sie ", " er ")


def preference(translator: heed.Translator) -> float:
    """Return log p of the translation with "er" minus that with "sie"."""
    with_er, with_sie = translator.score([sentences[0]] * 2, [bad, good])
    return with_er - with_sie


layers, per_layer = cow.encoder_self.shape[:2]
rise = [
    [
        preference(model.with_edits([Edit("encoder_self", river.encoder_self, layers=[layer], heads=[head])]))
        - preference(model)
        for head in range(per_layer)
    ]
    for layer in range(layers)
]
together = preference(model.with_edits([Edit("encoder_self", river.encoder_self)])) - preference(model)
figure, ax = plt.subplots(figsize=(5, 3))
image = ax.imshow(rise, cmap="Blues")
ax.set(xlabel="head", ylabel="layer", title="rise of log p(er) − log p(sie)")
ax.set_xticks(range(per_layer), range(1, per_layer + 1))
ax.set_yticks(range(layers), range(1, layers + 1))
figure.colorbar(image)
layer, head = np.unravel_index(np.argmax(rise), np.shape(rise))
print(f"log p(er) − log p(sie): {preference(model):.2f}; all heads patched: {together:+.2f}")
print(f"most: layer {layer + 1}, head {head + 1}: {np.max(rise):+.2f}")

# %% [markdown]
# **Question.** If all heads together are patched and the preference still does not turn, where else can the information
# be?
#
# <details><summary>Answer</summary>
#
# In the values: the words *lazy* and *deep* themselves are in the source, and the decoder can read them. Attention
# weights are only one of the ways on which information travels.
# </details>

# %%
plt.show()  # as a script; a notebook has shown the figures already
