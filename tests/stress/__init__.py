"""What is tried on the library for minutes instead of seconds: `make stress`."""
