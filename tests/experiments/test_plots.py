"""Figures of the experiments' pages."""

from experiments.measures import Values
from experiments.plots import line_plot, number_table


def test_line_plot_escapes_names() -> None:
    lines = {"a & b": {1: Values([10.0, 30.0]), 10: 1000.0}}
    plot = line_plot(lines, name="n", x="x", y="y", log_x=True, log_y=True)
    assert plot.count("<svg") == 1
    assert "a &amp; b" in plot
    assert "a & b" not in plot.replace("<!-- a & b -->", "")


def test_all_numbers_are_in_the_table() -> None:
    table = number_table({"bleu": {"rnn": Values([1.0, 3.0])}, "seeds": [{"held": True}, {"held": False}], "n": [1, 2]})
    for measured, value in (("bleu, rnn", "2 ± 1.414"), ("seeds, 2, held", "False"), ("n", "1, 2")):
        assert f'<th scope="row">{measured}</th><td>{value}</td>' in table
