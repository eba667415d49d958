"""The control plane: the only room with a database."""

__version__ = "0.1.0"
