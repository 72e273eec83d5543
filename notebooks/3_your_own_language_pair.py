# %% [markdown]
# # 3 Your own language pair
#
# You learn
#
# - what files heed needs, and how to check them before training;
# - how to train, evaluate and use a model of these files;
# - how to serve it over HTTP.
#
# Put your own files in place of those that the first section writes. `HEED_NOTEBOOK_QUICK=1` shortens everything, as a
# test.

# %%
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.request import Request, urlopen

from matplotlib import pyplot as plt

import heed
from heed.data.text.synthetic_corpus import read_split

QUICK = os.environ.get("HEED_NOTEBOOK_QUICK") == "1"
FOLDER = Path("my_corpus")

# %% [markdown]
# ## 1. The files
#
# Two text files in UTF-8 with one sentence per line; line n of one is the translation of line n of the other. The files
# are called `train.en` and `train.de`, and so on for a validation and a test set. Some hundred pairs are enough for
# each of the latter.
#
# **For your own languages, leave this cell out** and put your six files into the folder `my_corpus`, with your language
# codes as suffixes. Here the built-in corpus is written as such files.

# %%
FOLDER.mkdir(exist_ok=True)
sizes = {"train": 600, "valid": 20, "test": 20} if QUICK else {"train": 10_000, "valid": 300, "test": 300}
for name, size in sizes.items():
    pairs = read_split(name, size)
    for language, lines in {"en": pairs.src, "de": pairs.tgt}.items():
        (FOLDER / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

# %%
SRC, TGT = "en", "de"


def read(name: str) -> list[str]:
    """Return the lines of a file."""
    return (FOLDER / name).read_text(encoding="utf-8").split("\n")[:-1]


for split in ("train", "valid", "test"):
    print(f"{split}: {len(read(f'{split}.{SRC}')):,} pairs")
print(read(f"train.{SRC}")[0], "→", read(f"train.{TGT}")[0])

# %% [markdown]
# **Question.** Why should the three sets be drawn at random from one text, and not be its first, middle and last lines?
#
# <details><summary>Answer</summary>
#
# The parts of a corpus often come from different documents. A test set of the last lines would measure how the model
# does on one of them.
# </details>

# %% [markdown]
# ## 2. Check them
#
# `heed.check` finds swapped, shifted, untranslated and duplicate lines, and shows what a training would do. Its options
# are those of `heed.train`: we write them once.

# %%
CORPUS = {
    "data": "files",
    **{
        f"data.{split}": [[f"{FOLDER}/{split}.{SRC}", f"{FOLDER}/{split}.{TGT}"]]
        for split in ("train", "valid", "test")
    },
    "data.src_lang": SRC,
    "data.tgt_lang": TGT,
}
MODEL = {
    "model": "transformer",
    "model.d_model": 128,  # for a small corpus of short sentences; leave these lines out for real text
    "model.encoder_layers": 2,
    "model.decoder_layers": 2,
    "model.dropout": 0.1,
    "optimizer.lr": 3e-3,
    "batching.batch_tokens": 500,
    "schedule": "cosine",
    "schedule.warmup_steps": 2 if QUICK else 100,
    "trainer.max_steps": 20 if QUICK else 1000,
    "trainer.validate_every": 10 if QUICK else 250,
    "logger": "none",
}
report = heed.check(**CORPUS, **MODEL)
print(*report, sep="\n")

# %% [markdown]
# Look at the lengths, too: a second hump, or a pile at 1, is a sign of badly split sentences.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3))
lengths = {language: [len(line.split()) for line in read(f"train.{language}")] for language in (SRC, TGT)}
for language, counts in lengths.items():
    left.hist(counts, bins=range(40), alpha=0.6, label=language)
left.set(xlabel="words", ylabel="sentences")
left.legend()
right.hist([t / s for s, t in zip(*lengths.values(), strict=True)], bins=30)
right.set(xlabel=f"words in {TGT} / words in {SRC}")
ratios = Counter(round(t / s, 1) for s, t in zip(*lengths.values(), strict=True))
print("most frequent ratio of words:", ratios.most_common(1)[0][0])

# %% [markdown]
# **Question.** Why should no pair of the test set be in the training set?
#
# <details><summary>Answer</summary>
#
# A model could learn it by heart, and its score would say nothing about new text. heed removes such pairs from the
# training set, and says how many.
# </details>

# %% [markdown]
# ## 3. Train
#
# Interrupt the cell to stop early: `heed.train(resume=FOLDER_OF_THE_RUN)` continues.

# %%
run = heed.train(name="mine", **CORPUS, **MODEL)
print(run)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3))
heed.plot.curves({"mine": run.curves()}, y="valid_bleu", ax=left)
heed.plot.curves({"mine": run.curves()}, y="valid_loss", ax=right)
print("What heed says about this training:", *(run.diagnoses.values() or ["nothing"]), sep="\n")

# %% [markdown]
# **Question.** Does BLEU still rise at the end? What would you change?
#
# <details><summary>Answer</summary>
#
# If it does, raise `trainer.max_steps`. If the loss rises while the training loss falls, the model memorises: raise
# `model.dropout`, or add text.
# </details>

# %% [markdown]
# ## 4. Evaluate
#
# The scores of the test set are in the results. Whole-corpus scores hide a lot: look at the sentences, too.

# %%
model = run.load(device="cpu")
sources, references = read(f"test.{SRC}"), read(f"test.{TGT}")
scores = model.evaluate(sources, references)
print(f"BLEU {scores.bleu:.1f}, chrF {scores.chrf:.1f}, {scores.bleu_signature}")
assert QUICK or abs(scores.bleu - run.results["test"]["bleu"]) < 0.1
wrong = [triple for triple in zip(sources, model.translate(sources), references, strict=True) if triple[1] != triple[2]]
print(f"{len(sources) - len(wrong)} of {len(sources)} are equal to the reference. Some others:")
for source, translation, reference in wrong[:3]:
    print(f"  {source}\n    model:     {translation}\n    reference: {reference}")

# %% [markdown]
# **Question.** Is every translation that differs from its reference wrong?
#
# <details><summary>Answer</summary>
#
# No: a sentence has many good translations, in real text above all. BLEU compares with one of them, and is therefore a
# number to compare systems with, not a share of correct sentences.
# </details>

# %% [markdown]
# ## 5. Translate
#
# The model gives several translations with their log-probabilities, and the attention of the best one.

# %%
sentence = sources[0]
for found in model.hypotheses([sentence], n=3, beam=5)[0]:
    print(f"{found.log_prob:8.2f}  {found.text}")
pair = model.attend([sentence])[0]
ax = pair.plot()

# %% [markdown]
# **Question.** How sure is the model of its first translation?
#
# <details><summary>Answer</summary>
#
# exp(log-probability) is its probability. Compare it with that of the second one.
# </details>

# %% [markdown]
# ## 6. Serve
#
# `heed serve` offers the model over HTTP, with the API of LibreTranslate, and a page to try it. On the command line:
# `heed serve runs/mine/TIME`. Here we start it in the background, ask it, and stop it.

# %%
command = [sys.executable, "-m", "heed", "serve", str(run.path), "--port", "0", "--engine", "heed"]  # as in Python
server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
started = server.stdout.readline()
url = started.split(" at ")[1].split()[0]
print(started)

# %%
body = json.dumps({"q": sentence, "source": SRC, "target": TGT}).encode()
request = Request(f"{url}/translate", body, {"Content-Type": "application/json"})
with urlopen(request) as response:
    answer = json.load(response)
print(answer)
# Where the model has no translation, the server copies the source.
assert answer["translatedText"] == (model.translate([sentence])[0] or sentence)

# %%
server.terminate()
server.wait()
server.stdout.close()
print("the server has ended")

# %% [markdown]
# **Question.** Why does the server answer many requests at once faster than one after the other?
#
# <details><summary>Answer</summary>
#
# It translates sentences that arrive together as one batch. Try it with a list of sentences as `q`.
# </details>

# %% [markdown]
# To take the model to another machine, copy the folder `model` of the run. Next: `5_why_is_my_model_bad.py` shows what
# heed says about files that are not as they should be.

# %%
plt.show()  # as a script; a notebook has shown the figures already
