"""Arrays to PNG images. The figures of HTML pages are in `heed.report.figures`."""
