"""Virtual clusters: who belongs to them, what they own, what they use."""
