"""Mistakes that the check explains."""

from torch import Tensor


def gates_in_another_order(x: Tensor, h: Tensor, c: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The gates are read in the order i, f, o, g. It is i, f, g, o, as in torch."""
    i, f, o, g = (x @ W.T + h @ U.T + b).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def input_and_forget_swapped(x: Tensor, h: Tensor, c: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Input and forget gate are swapped. f is how much of the old state stays, i how much of the new one is added."""
    i, f, g, o = (x @ W.T + h @ U.T + b).chunk(4, 1)
    c = i.sigmoid() * c + f.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def output_without_tanh(x: Tensor, h: Tensor, c: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The output is σ(o) c'. It must be σ(o) tanh(c'), which stays between −1 and 1."""
    i, f, g, o = (x @ W.T + h @ U.T + b).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c, c


def output_of_the_old_state(x: Tensor, h: Tensor, c: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The output is computed from the old cell state c. It must be computed from c'."""
    i, f, g, o = (x @ W.T + h @ U.T + b).chunk(4, 1)
    return o.sigmoid() * c.tanh(), f.sigmoid() * c + i.sigmoid() * g.tanh()
