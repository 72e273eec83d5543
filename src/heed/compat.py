"""Private interfaces of libraries, in one place."""
