"""Random life cycles: runs that combine features nobody combines, and what one does with them, judged by oracles."""
