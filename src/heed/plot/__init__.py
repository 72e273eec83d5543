"""Arrays to PNG, SVG and PDF, and to matplotlib axes. The figures of HTML pages are in `heed.report.figures`."""

from heed.plot.axes import attention, curves, spreads

__all__ = ["attention", "curves", "spreads"]
