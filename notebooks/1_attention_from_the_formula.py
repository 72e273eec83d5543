# %% [markdown]
# # 1 Attention from the formula
#
# You learn
#
# - how scores, softmax and values make attention, and why the scores are divided by √d_k;
# - what masks, heads and positions are, in a few lines each;
# - that heed's blocks compute exactly these lines.
#
# Nothing is trained here: the vectors are random numbers, and every comparison with heed is an assertion.

# %%
import math

import torch
from matplotlib import pyplot as plt
from matplotlib.colors import PowerNorm
from torch.testing import assert_close

from heed import functional
from heed.layers.attention import MultiHeadAttention
from heed.layers.attention_scores import SCORES, ScoreOptions
from heed.layers.positions import RELATIVE, RelativePositions, SinusoidalPositions

torch.manual_seed(1)
words = ["The", "animal", "didn't", "cross", "the", "street", "because", "it", "was", "too", "tired"]
N, D = len(words), 64  # positions, width of the model
it, animal, street = words.index("it"), words.index("animal"), words.index("street")


def show(weights: torch.Tensor, rows: list[str], columns: list[str], title: str, ax: plt.Axes | None = None) -> None:
    """Draw attention weights: each row is a distribution over the columns."""
    ax = ax or plt.subplots(figsize=(5, 5))[1]
    visible = PowerNorm(0.5, 0, 1)  # the square root makes small weights visible
    ax.imshow(weights.detach().numpy(), cmap="Blues", norm=visible)
    ax.set_xticks(range(len(columns)), columns, rotation=90)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_title(title)


# %% [markdown]
# ## 1. Scores, softmax, context
#
# The simplest self-attention has no parameters. The score of two words is the dot product of their vectors; the softmax
# of a row of scores gives weights; the new vector of a word is the weighted mean of all vectors:
#
# A = softmax(XXᵀ), H = AX
#
# We make the vector of *it* similar to the vector of *animal*. The map shows that *it* then also attends to *animal*.

# %%
X = torch.randn(N, D) / D**0.25
X[it] = 0.5 * X[it] + 0.7 * X[animal]

scores = X @ X.T
weights = scores.exp() / scores.exp().sum(1, keepdim=True)
context = weights @ X

expected, expected_weights = functional.attend(X, X, X, None, scaled=False)
assert_close(context, expected)
assert_close(weights, expected_weights)
show(weights, words, words, "softmax(XXᵀ)")
print("Sum of each row:", weights.sum(1))
print(f"it → animal {weights[it, animal]:.2f}, it → street {weights[it, street]:.2f}")

# %% [markdown]
# **Questions.** Why is the diagonal dark? What happens to a word if you change the order of the others?
#
# <details><summary>Answers</summary>
#
# The product of a vector with itself is its squared length, which is larger than its product with most other vectors.
# Learned projections (section 4) let a word look elsewhere. Nothing happens to it: each row is a mean over a set, and a
# mean has no order. Section 6 shows it.
# </details>

# %% [markdown]
# ## 2. Why √d_k
#
# The dot product of two random vectors of width d_k is a sum of d_k terms, so its standard deviation is √d_k. The left
# plot measures it. Large scores make the softmax choose one key alone: the right plot shows the largest weight among
# ten keys.

# %%
widths = [4, 16, 64, 256, 1024]
deviations, largest = [], {True: [], False: []}
for width in widths:
    query, key = torch.randn(2000, width), torch.randn(10, width)
    deviations.append((query @ key.T).std().item())
    for scaled, values in largest.items():
        _, weights = functional.attend(query, key, key, None, scaled=scaled)
        values.append(weights.max(1).values.mean().item())

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5))
left.loglog(widths, deviations, "o", label="measured")
left.loglog(widths, [width**0.5 for width in widths], label="√d_k")
left.set(xlabel="d_k", ylabel="standard deviation of scores")
left.legend()
right.semilogx(widths, largest[False], "o-", label="qᵀk")
right.semilogx(widths, largest[True], "o-", label="qᵀk / √d_k")
right.set(xlabel="d_k", ylabel="largest weight, mean", ylim=(0, 1))
right.legend()
for width, deviation, with_scale, without in zip(widths, deviations, largest[True], largest[False], strict=True):
    print(f"d_k {width:>4}: deviation {deviation:6.2f}, largest weight {without:.2f}, scaled {with_scale:.2f}")
assert max(largest[True]) < 0.5 < largest[False][-1]

# %% [markdown]
# The softmax passes hardly any gradient where one weight is almost 1. The plot shows the gradient of the scores.

# %%
sizes = []
for width in widths:
    query, key = torch.randn(2000, width), torch.randn(10, width)
    for divisor in (1, width**0.5):
        scores = (query @ key.T / divisor).requires_grad_()
        scores.softmax(1)[:, 0].sum().backward()
        sizes.append(scores.grad.abs().sum(1).mean().item())
plain, divided = sizes[::2], sizes[1::2]
ax = plt.subplots(figsize=(5, 3.5))[1]
ax.loglog(widths, plain, "o-", label="qᵀk")
ax.loglog(widths, divided, "o-", label="qᵀk / √d_k")
ax.set(xlabel="d_k", ylabel="gradient of the scores")
ax.legend()
print(f"At d_k = {widths[-1]}, scaling makes the gradient {divided[-1] / plain[-1]:.0f} times as large.")

# %% [markdown]
# **Question.** Why is the divisor √d_k, and not d_k?
#
# <details><summary>Answer</summary>
#
# It makes the standard deviation 1 for every width. Division by d_k would make all scores of wide vectors nearly equal,
# and the weights uniform.
# </details>

# %% [markdown]
# ## 3. Masks
#
# A mask says which keys a query may attend to. heed has one convention: True = may attend. A hidden score becomes −∞
# before the softmax, so its weight is 0. The decoder uses the *causal* mask: a word sees itself and the words before
# it.

# %%
causal = torch.ones(N, N).tril().bool()
padding = torch.arange(N) < 8  # the last words are padding
scores = X @ X.T / D**0.5


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return weights of 0 where the mask is False."""
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


figure, axes = plt.subplots(1, 2, figsize=(11, 5))
for ax, (name, mask) in zip(axes, {"causal": causal, "padding": padding[None]}.items(), strict=True):
    weights = masked_softmax(scores, mask)
    assert_close(weights, functional.masked_softmax(scores, mask))
    show(weights, words, words, name, ax)
assert_close(masked_softmax(scores, causal) @ X, functional.attend(X, X, X, "causal")[0])
print("Weight on hidden words:", masked_softmax(scores, causal)[~causal].sum().item())

# %% [markdown]
# A row without any key divides 0 by 0. heed gives zeros there, never NaN: a NaN would spread to all weights of a model.

# %%
nothing = torch.zeros(1, N).bool()
ours, heeds = masked_softmax(scores[:1], nothing), functional.masked_softmax(scores[:1], nothing)
print("the formula:", ours)
print("heed:       ", heeds)
assert ours.isnan().all()
assert not heeds.any()

# %% [markdown]
# **Questions.** Why are the hidden scores set to −∞, and not to 0? Why does the encoder need no causal mask?
#
# <details><summary>Answers</summary>
#
# exp(0) = 1, so a score of 0 still gets weight. The encoder reads the whole source, which is known before translation
# starts; the decoder must not see the words that it is trained to predict.
# </details>

# %% [markdown]
# ## 4. Queries, keys and values
#
# Three learned matrices give each word three roles: the query asks, the key answers, the value is passed on. We take
# the matrices of heed's block, and compute one head of width D ourselves.

# %%
X = 3 * X  # longer vectors, so that the weights of random matrices differ
block = MultiHeadAttention(d_model=D, num_heads=1, score="scaled_dot", dropout=0.0, positions=RelativePositions())
W_q, (W_k, W_v), W_o = block.query.weight, block.key_value.weight.chunk(2), block.output.weight

Q, K, V = X @ W_q.T, X @ W_k.T, X @ W_v.T
weights = (Q @ K.T / D**0.5).softmax(-1)
output = weights @ V @ W_o.T

expected, expected_weights = block(X[None], block.project(X[None]), None, maps=True)
assert_close(output, expected[0])
assert_close(weights, expected_weights[0, 0])
figure, axes = plt.subplots(1, 2, figsize=(11, 5))
show((X @ X.T / D**0.5).softmax(-1), words, words, "without parameters", axes[0])
show(weights, words, words, "with query and key", axes[1])
print(f"Mean weight on the diagonal: {weights.diag().mean():.2f}, "
      f"without parameters {(X @ X.T / D**0.5).softmax(-1).diag().mean():.2f}")  # fmt: skip

# %% [markdown]
# **Question.** Only the product W_Q W_Kᵀ matters for the weights. Why two matrices?
#
# <details><summary>Answer</summary>
#
# With several heads each product has a low rank (D × E times E × D), which needs fewer parameters and multiplications
# than a full D × D matrix per head. And keys can be computed once and kept while the decoder runs.
# </details>

# %% [markdown]
# ## 5. Heads
#
# H heads of width E = D/H attend at the same time, each with its own part of the matrices. Their contexts are put side
# by side and multiplied by W_O. The plots show four heads of one layer that attend to different words.

# %%
H = 4
E = D // H
block = MultiHeadAttention(d_model=D, num_heads=H, score="scaled_dot", dropout=0.0, positions=RelativePositions())
W_q, (W_k, W_v), W_o = block.query.weight, block.key_value.weight.chunk(2), block.output.weight

contexts, maps = [], []
for head in range(H):
    part = slice(head * E, (head + 1) * E)
    Q, K, V = X @ W_q[part].T, X @ W_k[part].T, X @ W_v[part].T
    maps.append((Q @ K.T / E**0.5).softmax(-1))
    contexts.append(maps[-1] @ V)
output = torch.cat(contexts, -1) @ W_o.T

expected, expected_weights = block(X[None], block.project(X[None]), None, maps=True)
assert_close(output, expected[0])
assert_close(torch.stack(maps), expected_weights[0])
figure, axes = plt.subplots(1, H, figsize=(16, 4.5), layout="constrained")
for head, ax in enumerate(axes):
    show(maps[head], words, words, f"head {head + 1}", ax)
print("Most attended word of 'it', by head:", [words[weights[it].argmax()] for weights in maps])

# %% [markdown]
# More heads need no more parameters, as the numbers show.

# %%
for heads in (1, 2, 4, 8):
    options = {"score": "scaled_dot", "dropout": 0.0, "positions": RelativePositions()}
    block = MultiHeadAttention(d_model=D, num_heads=heads, **options)
    print(f"{heads} heads: {sum(weight.numel() for weight in block.parameters()):,} parameters")

# %% [markdown]
# **Question.** What do many heads cost, if not parameters?
#
# <details><summary>Answer</summary>
#
# Each head gets narrower, so that its scores can distinguish less; and there are H maps of N × N weights in memory.
# </details>

# %% [markdown]
# ## 6. Positions
#
# Attention ignores the order of words: if we shuffle the words, the outputs are shuffled in the same way.

# %%
order = torch.randperm(N)
shuffled, _ = functional.attend(X[order], X[order], X[order], None)
assert_close(shuffled, functional.attend(X, X, X, None)[0][order])
print(
    "difference after undoing the shuffle:", (shuffled - functional.attend(X, X, X, None)[0][order]).abs().max().item()
)

# %% [markdown]
# The transformer adds a vector to each word that says where it is: sines and cosines of different wavelengths. The
# product of two position vectors depends on their distance alone, which is what the right plot shows: the curves of two
# positions are equal.

# %%
places = torch.arange(100)[:, None]
frequencies = 10_000 ** (-torch.arange(0, D, 2) / D)
P = torch.stack([(places * frequencies).sin(), (places * frequencies).cos()], -1).flatten(1)

assert_close(P, SinusoidalPositions(d_model=D, merge="add", max_length=None).vectors(0, 100), atol=1e-4, rtol=0)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.5))
left.imshow(P.T.numpy(), cmap="RdBu", aspect="auto")
left.set(xlabel="position", ylabel="dimension", title="sinusoidal positions")
for place in (40, 50):
    right.plot(range(-30, 31), (P[place - 30 : place + 31] @ P[place]).numpy(), label=f"position {place}", alpha=0.7)
right.set(xlabel="distance", ylabel="product with the position vector")
right.legend()
assert_close(P[10:71] @ P[40], P[20:81] @ P[50])

# %%
with_order, _ = functional.attend(X + P[:N], X + P[:N], X + P[:N], None)
Y = X[order] + P[:N]
shuffled, _ = functional.attend(Y, Y, Y, None)
difference = (shuffled - with_order[order]).abs().max().item()
print("difference with positions:", difference)
assert difference > 0.1

# %% [markdown]
# *Rotary* positions rotate queries and keys instead, each pair of dimensions by an angle that grows with the position.
# The score then depends on the distance, too. The map shows equal colours along each diagonal.

# %%
rotary = RELATIVE["rotary"](num_heads=1, width=D, causal=False)


def rotate(x: torch.Tensor) -> torch.Tensor:
    """Rotate the pair (i, i + D/2) of position t by the angle t · frequency i."""
    angles = torch.arange(len(x))[:, None] * frequencies
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)


assert_close(rotate(X), rotary.rotate(X[None, None], 0)[0, 0])
query, key = torch.randn(2, D)
scores = rotate(query.expand(20, D)) @ rotate(key.expand(20, D)).T  # the same word at all positions
ax = plt.subplots(figsize=(4, 4))[1]
ax.imshow(scores.numpy(), cmap="RdBu")
ax.set(xlabel="position of the key", ylabel="position of the query", title="qᵀk with rotary positions")
spread = max(scores.diagonal(distance).std().item() for distance in range(-10, 11))
print(f"Largest deviation along a diagonal: {spread:.0e}; of all scores: {scores.std():.2f}")
assert spread < 1e-3 * scores.std()

# %% [markdown]
# *ALiBi* subtracts the distance, times a slope of the head. A large slope keeps a head near, as the plot shows.

# %%
alibi = RELATIVE["alibi"](num_heads=H, width=E, causal=False)
distances = (torch.arange(20)[:, None] - torch.arange(20)).abs()
slopes = [2 ** (-8 * head / H) for head in range(1, H + 1)]
bias = torch.stack([-slope * distances for slope in slopes])
assert_close(bias, alibi.bias(20, 20)[0])
ax = plt.subplots(figsize=(6, 3.5))[1]
for slope, values in zip(slopes, bias, strict=True):
    ax.plot(values[10].softmax(0).numpy(), label=f"slope {slope:.4f}")
ax.set(xlabel="position of the key", ylabel="weight of the query at 10, for equal scores")
_ = ax.legend()

# %% [markdown]
# **Questions.** Which of the three kinds can tell "the dog bit the man" from "the man bit the dog"? Which has
# parameters?
#
# <details><summary>Answers</summary>
#
# All three: the words have other distances to each other. None of them has parameters; *learned* and *relative* (T5)
# positions do: `RELATIVE["relative"]` has one bias per head and distance.
# </details>

# %% [markdown]
# ## 7. The scores of the RNN
#
# Attention is older than the transformer. In the RNN the query is the state h_t of the decoder, and the keys are the
# states h_s of the encoder:
#
# - *general* (Luong et al. 2015): h_tᵀ W h_s
# - *additive* (Bahdanau et al. 2015): vᵀ tanh(W h_t + U h_s)

# %%
options = ScoreOptions(query_width=D, state_width=D)
general, additive = SCORES["general"](options), SCORES["additive"](options)
h_t, h_s = torch.randn(5, D), torch.randn(N, D)

ours = {"general": h_t @ (h_s @ general.weight.weight.T).T}
W, U, v = additive.query.weight, additive.state.weight, additive.v.weight
ours["additive"] = torch.tanh((h_t @ W.T)[:, None] + (h_s @ U.T)[None]) @ v[0]

figure, axes = plt.subplots(1, 2, figsize=(11, 3.5))
for ax, (name, score) in zip(axes, {"general": general, "additive": additive}.items(), strict=True):
    assert_close(ours[name], score(h_t[None], score.project(h_s[None]))[0])
    show(ours[name].softmax(-1), [f"h{t}" for t in range(5)], words, name, ax)
    print(f"{name}: scores from {ours[name].min():.1f} to {ours[name].max():.1f}")
assert math.isclose(ours["general"].softmax(-1).sum().item(), 5, rel_tol=1e-5)

# %% [markdown]
# **Questions.** Which of the two can be computed as one matrix product? What bounds the additive score?
#
# <details><summary>Answers</summary>
#
# *general*: this is why Luong's scores are faster. tanh is in [−1, 1], so the additive score is at most the sum of the
# absolute values of v.
# </details>
#
# Next: `2_rnn_and_transformer.py` trains a model of each family. With `heed-exercise list` you write such blocks
# yourself, and heed checks them.

# %%
if __name__ == "__main__":
    plt.show()  # as a script; a notebook has shown the figures already
