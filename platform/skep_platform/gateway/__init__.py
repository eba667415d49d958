"""The sockets: node agents on one side, live pages on the other."""
