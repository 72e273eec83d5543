# %% [markdown]
# # 5 Why is my model bad?
#
# You learn
#
# - what `heed.check` finds in files that are not as they should be;
# - what heed says while a model trains on them, or with bad options;
# - how the curves of a broken training look.
#
# Everything is broken on purpose here. `HEED_NOTEBOOK_QUICK=1` shortens everything, as a test.

# %%
import os
import random
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import heed
from heed.data.text.synthetic_corpus import read_split

QUICK = os.environ.get("HEED_NOTEBOOK_QUICK") == "1"
STEPS = 20 if QUICK else 400
FOLDER = Path("broken")

# %% [markdown]
# ## 1. A healthy corpus, and two broken ones
#
# In the second corpus a third of the lines have their languages swapped. In the third one a line of the German file was
# lost, so that all lines after it are shifted.

# %%
text = read_split("train", 600 if QUICK else 4000)
train = list(zip(text.src, text.tgt, strict=True))
rng = random.Random(1)
corpora = {
    "healthy": train,
    "swapped": [(tgt, src) if rng.random() < 1 / 3 else (src, tgt) for src, tgt in train],
    "shifted": list(zip(text.src, text.tgt[1:] + text.tgt[:1], strict=True)),
}


def write(name: str, pairs: list[tuple[str, str]]) -> list[str]:
    """Write a pair of files and return their names."""
    files = [FOLDER / f"{name}.{language}" for language in ("en", "de")]
    for file, lines in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return list(map(str, files))


FOLDER.mkdir(exist_ok=True)
held_out = read_split("valid", 40 if QUICK else 200)
valid = write("valid", list(zip(held_out.src, held_out.tgt, strict=True)))
files = {name: write(name, pairs) for name, pairs in corpora.items()}
for name, pairs in corpora.items():
    print(f"{name:<8} {pairs[0][0]}  →  {pairs[0][1]}")

# %% [markdown]
# **Question.** How would you notice these faults without a tool?
#
# <details><summary>Answer</summary>
#
# Read pairs from all parts of the files. The first lines alone may be in order: a line is usually lost somewhere in the
# middle.
# </details>

# %% [markdown]
# ## 2. Check before training
#
# `heed.check` knows no languages. It counts words: which occur on which side, and in which pairs together. The
# last lines of each report are its findings.

# %%
OPTIONS = {
    "data": "files",
    "data.valid": [valid],
    "data.test": None,
    "test": False,
    "data.cleaning.drop_leaked": False,
    "logger": "none",
    "search": "greedy",
    "model": "transformer",
    "model.d_model": 64,
    "model.d_ff": 128,
    "model.encoder_layers": 2,
    "model.decoder_layers": 2,
    "model.dropout": 0.1,
    "optimizer.lr": 3e-3,
    "batching.batch_tokens": 500,
    "schedule.warmup_steps": STEPS // 8,
    "trainer.max_epochs": None,
    "trainer.max_steps": STEPS,
    "trainer.validate_every": STEPS // 4,
    "callbacks.attention_maps": None,
}
reports = {name: heed.check(**{**OPTIONS, "data.train": [files[name]]}) for name in corpora}
findings = {}
for name, lines in reports.items():
    findings[name] = "\n".join(line for line in lines if line.startswith((files[name][0], "valid")))
    print(f"{name}:\n{findings[name]}\n")
assert QUICK or findings["healthy"].count("no fault") == 2
assert QUICK or all(findings[name].count("no fault") < 2 for name in ("swapped", "shifted"))

# %% [markdown]
# **Question.** How could shifted lines be found without a dictionary?
#
# <details><summary>Answer</summary>
#
# Words that translate each other occur in the same pairs. If they occur in neighbouring lines instead, the lines are
# shifted.
# </details>

# %% [markdown]
# ## 3. Train on them anyway
#
# And a fourth run: a healthy corpus with a learning rate 100 times too high. heed says what it thinks before the first
# step and at each validation; `run.diagnoses` has all of it.

# %%
wrong = {name: {} for name in corpora} | {"learning rate × 100": {"optimizer.lr": 0.3}}
runs = {}
for name, options in wrong.items():
    corpus = {"data.train": [files.get(name, files["healthy"])]}
    runs[name] = heed.train(name=f"broken-{name.partition(' ')[0]}", **{**OPTIONS, **corpus, **options})

# %%
for name, run in runs.items():
    print(f"{name}: BLEU {run.results['valid']['bleu']:.1f}")
    for diagnosis, sentence in run.diagnoses.items():
        print(f"    {diagnosis}: {sentence}")
expected = {
    "swapped": {"swapped"},
    "shifted": {"shifted"},
    "learning rate × 100": {"high_learning_rate", "rising_loss"},
}
for name, diagnoses in expected.items():
    assert QUICK or diagnoses & runs[name].diagnoses.keys(), name

# %% [markdown]
# **Question.** Which faults are known before the first step, and which only later?
#
# <details><summary>Answer</summary>
#
# Those of the text and contradictions among the options are known before. A learning rate that is too high shows in the
# loss.
# </details>

# %% [markdown]
# ## 4. How it looks
#
# The left plot shows the training loss. That of the shifted corpus falls, too: the model learns to write German, as the
# loss tells, but not to translate, as BLEU in the right plot tells. With the high learning rate, the loss stays far
# above the others.

# %%
curves = {name: run.curves() for name, run in runs.items()}
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4))
heed.plot.curves(curves, y="nll", ax=left)
left.set(ylabel="training loss, nats per token")
heed.plot.curves(curves, y="valid_bleu", ax=right)
final = {name: columns["nll"][np.isfinite(columns["nll"])][-1] for name, columns in curves.items() if not QUICK}
for name, loss in final.items():
    print(f"{name:<20} training loss {loss:.2f}, BLEU {runs[name].results['valid']['bleu']:.1f}")
assert QUICK or final["healthy"] < final["shifted"] < final["learning rate × 100"]

# %% [markdown]
# What do they write? The same sentence by all four:

# %%
source, reference = held_out.src[0], held_out.tgt[0]
print("source:   ", source)
print("reference:", reference)
for name, run in runs.items():
    print(f"{name}: {run.load(device='cpu').translate([source])[0]}")

# %% [markdown]
# **Questions.** Why is the loss no good sign of a good translation? Which curve would tell you first that something is
# wrong?
#
# <details><summary>Answers</summary>
#
# The next word is often predictable from the words before it, without the source. BLEU on a validation set tells; and
# the sentences themselves, which are on the page of each run (`report.html`).
# </details>

# %% [markdown]
# ## 5. Your turn
#
# Mend one fault at a time, and train again. Then break something else, such as `model.dropout=0.9` or
# `search.max_length_factor=0.4`. The list shows what heed said up to here.

# %%
print(*sorted({name for run in runs.values() for name in run.diagnoses}), sep="\n")

# %% [markdown]
# **Question.** What else does heed know?
#
# <details><summary>Answer</summary>
#
# The page "Why is my model bad?" of the documentation lists all diagnoses. If you break a run so that heed says
# nothing, although the model is bad, open an issue.
# </details>

# %%
plt.show()  # as a script; a notebook has shown the figures already
