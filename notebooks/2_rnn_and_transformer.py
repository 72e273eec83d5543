# %% [markdown]
# # 2 RNN against transformer
#
# You learn
#
# - how to train an RNN with attention and a transformer with the same number of parameters;
# - how to compare them: curves, speed, long sentences, phenomena;
# - what their attention shows.
#
# Both are trained on heed's built-in English–German corpus. `HEED_NOTEBOOK_QUICK=1` shortens everything, as a test.

# %%
import os

from matplotlib import pyplot as plt

import heed
from heed.comparison.challenge import built_in_challenge, contrastive_accuracy

QUICK = os.environ.get("HEED_NOTEBOOK_QUICK") == "1"
STEPS = 20 if QUICK else 1000
COMMON = {
    "logger": "none",
    "data.train": 1000 if QUICK else 24_000,
    "data.valid": 20 if QUICK else 200,
    "data.test": 20 if QUICK else 300,
    "data.long": 5 if QUICK else 100,
    "trainer.max_steps": STEPS,
    "trainer.validate_every": STEPS // 4,
    "schedule": "cosine",  # falls to a tenth within max_steps
    "schedule.warmup_steps": STEPS // 10,
    "callbacks.attention_maps": None,  # figures are drawn below
}

# %% [markdown]
# ## 1. Train both at equal size
#
# `match="params"` changes the widths of the transformer until it has the parameters of the RNN, within 2 %.

# %%
rnn = heed.train(model="rnn", **{"model.d_embedding": 64, "model.d_model": 128}, **COMMON)

# %%
transformer = heed.train(model="transformer", match="params", match_to=rnn.path, **COMMON)
runs = {"RNN": rnn, "transformer": transformer}
for name, run in runs.items():
    print(f"{name:<12} {run.results['params']:,} parameters, {run.results['steps']:,} steps, "
          f"{run.results['tokens']:,} tokens")  # fmt: skip
assert abs(transformer.results["params"] / rnn.results["params"] - 1) < 0.02

# %% [markdown]
# **Question.** Equal parameters, equal steps, equal time: which of them is fair?
#
# <details><summary>Answer</summary>
#
# Each answers another question, and you must say which one you asked. `match="time"` and `match="tokens"` are the
# others.
# </details>

# %% [markdown]
# ## 2. Learning curves and speed
#
# The left plot shows how BLEU on the validation set rises, the right one the loss.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.5))
curves = {name: run.curves() for name, run in runs.items()}
heed.plot.curves(curves, y="valid_bleu", ax=left)
_ = heed.plot.curves(curves, y="valid_loss", ax=right)

# %% [markdown]
# Both read the same tokens. The bars show how many per second in training, on this machine and with what else runs on
# it.

# %%
ax = plt.subplots(figsize=(5, 1.8))[1]
ax.barh(list(runs), [run.results["tokens_per_second"] for run in runs.values()])
ax.set(xlabel="tokens per second in training")
for name, run in runs.items():
    print(f"{name}: {run.results['tokens_per_second']:,.0f} tokens/s, trained for {run.results['train_seconds']:.0f} s")

# %% [markdown]
# **Question.** On a GPU, which of the two would gain more?
#
# <details><summary>Answer</summary>
#
# The transformer computes all target positions of a training sentence at once, in large matrix products. The RNN
# computes one position after the other, and multiplies few rows each time.
# </details>

# %% [markdown]
# ## 3. Scores, and long sentences
#
# `test` has sentences as in training; all sentences of `long` are longer than any of them. The bars show how much each
# model loses there.

# %%
splits = {"test": [], "long": []}
for name, run in runs.items():
    for split, scores in splits.items():
        scores.append(run.results["test"]["bleu"] if split == "test" else run.results["tests"]["long"]["bleu"])
    print(f"{name:<12} BLEU: test {splits['test'][-1]:.1f}, long {splits['long'][-1]:.1f}")
figure, ax = plt.subplots(figsize=(5, 3))
for number, (split, scores) in enumerate(splits.items()):
    ax.bar([x + 0.4 * number for x in range(len(runs))], scores, width=0.38, label=split)
ax.set_xticks([x + 0.2 for x in range(len(runs))], runs)
ax.set_ylabel("BLEU")
ax.legend()
assert QUICK or all(long < test for test, long in zip(*splits.values(), strict=True))

# %% [markdown]
# Is the difference on the test set significant? `heed.compare` tests it, and lists what else differs. In Jupyter, the
# last line shows the whole page; `found.write("comparison")` writes it.

# %%
found = heed.compare(runs)
print(found)
found

# %% [markdown]
# **Question.** Why can both models fail on sentences that are longer than all they have read?
#
# <details><summary>Answer</summary>
#
# Neither has seen these positions, or ends of sentences so late. Try `model/positions=rotary` or `alibi`.
# </details>

# %% [markdown]
# ## 4. Phenomena
#
# The challenge set has pairs of translations that differ in one decision: *es* or *sie* for "it", the sense of "bat",
# who bites whom. The model should give the right one the higher probability. Chance is one half, the dashed line.

# %%
contrasts = built_in_challenge(4 if QUICK else 60)
accuracy = {name: contrastive_accuracy(run.load(device="cpu"), contrasts) for name, run in runs.items()}
figure, ax = plt.subplots(figsize=(7, 3))
for number, (name, found) in enumerate(accuracy.items()):
    ax.bar([x + 0.4 * number for x in range(len(found))], [a.fraction for a in found.values()], width=0.38, label=name)
    print(f"{name:<12}", ", ".join(f"{tag} {result.fraction:.2f}" for tag, result in found.items()))
ax.set_xticks([x + 0.2 for x in range(len(found))], found)
ax.axhline(0.5, color="0.5", linestyle="--")
ax.set_ylabel("accuracy")
_ = ax.legend(loc="lower right")

# %% [markdown]
# **Question.** Which phenomenon comes last for both? Look at an example with `print(contrasts[0])`.
#
# <details><summary>Answer</summary>
#
# The one with the lowest bars. Decisions that depend on a single far word, such as pronouns, are usually learned late:
# few tokens of the loss depend on them.
# </details>

# %% [markdown]
# ## 5. Attention
#
# The RNN has one attention map. The transformer has one for each layer and head; `plot()` chooses the most informative
# one.

# %%
sentence = "The old cow didn't cross the river because it was too lazy."
pairs = {name: run.load(device="cpu").attend([sentence])[0] for name, run in runs.items()}
figure, axes = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
for ax, (name, pair) in zip(axes, pairs.items(), strict=True):
    pair.plot(ax=ax)
    ax.set_title(name)
    print(f"{name}: {pair.target}")

# %% [markdown]
# Gold alignments of the corpus tell how good these maps are as alignments: the alignment error rate (AER) falls while
# the models learn.

# %%
heed.plot.curves(curves, y="valid_aer")
for name, columns in curves.items():
    print(f"{name}: AER {min(columns['valid_aer'][columns['valid_aer'] > 0]):.3f}")

# %% [markdown]
# Only the transformer attends from source words to source words. These are all heads of its last encoder layer.

# %%
maps = pairs["transformer"].encoder_self
figure, axes = plt.subplots(1, maps.shape[1], figsize=(18, 5), layout="constrained")
for head, ax in enumerate(axes):
    pairs["transformer"].plot(kind="encoder_self", layer=-1, head=head, ax=ax)
print(f"{maps.shape[0]} layers of {maps.shape[1]} heads; RNN: {pairs['RNN'].encoder_self}")

# %% [markdown]
# **Questions.** Which head attends from "it" to a noun? Does it have to, for the pronoun to be right?
#
# <details><summary>Answers</summary>
#
# Look at the row of "it" in each map. A map shows where a model looks, not whether it matters: the notebook
# `4_break_it.py` changes the attention to find out.
# </details>

# %%
plt.show()  # as a script; a notebook has shown the figures already
