"""Figures of the experiments' pages."""

from xml.etree import ElementTree

from experiments.measures import Values
from experiments.plots import line_plot


def test_line_plot_escapes_names() -> None:
    lines = {"a & b": {1: Values([10.0, 30.0]), 10: 1000.0}}
    plot = ElementTree.fromstring(f"<p>{line_plot(lines, name='n', x='x', y='y', log_x=True, log_y=True)}</p>")
    assert "a & b" in [text.text for text in plot.iter("text")]
    assert len(list(plot.iter("svg"))) == 1
