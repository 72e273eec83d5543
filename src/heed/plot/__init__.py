"""Arrays to PNG pictures. Pages have figures of their own, in `heed.report.figures`."""
