"""The node agent: starts containers on exactly the GPUs it was given and reports what happens."""
