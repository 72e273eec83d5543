"""Export models to other engines."""
