"""LSTM cell (Hochreiter & Schmidhuber 1997; Gers et al. 2000)."""

from torch import Tensor


def lstm_cell(x: Tensor, h: Tensor, c: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next output h' and the next cell state c'.

    W x + U h + b has four parts of width D, in the order i, f, g, o:

        c' = σ(f) c + σ(i) tanh(g)
        h' = σ(o) tanh(c')

    Args:
        x: the input, shape (B, I).
        h: the last output, shape (B, D).
        c: the last cell state, shape (B, D).
        W: shape (4 D, I).
        U: shape (4 D, D).
        b: shape (4 D,).

    Returns:
        h' and c', each of shape (B, D).
    """
    i, f, g, o = (x @ W.T + h @ U.T + b).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c
