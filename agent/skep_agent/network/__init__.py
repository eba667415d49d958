"""What containers reach: the fence of rules on the node, and the networks of gangs over nodes."""
