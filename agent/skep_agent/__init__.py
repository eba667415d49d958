"""The node agent: starts containers on exactly the GPUs it was told and reports what happens."""
