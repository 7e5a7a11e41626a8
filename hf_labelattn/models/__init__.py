"""Configurations and models. Everything here travels inside a checkpoint, so files import only their siblings."""
