"""Text to text."""
