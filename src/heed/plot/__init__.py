"""Arrays to pictures: attention maps as PNG, plots as SVG."""
