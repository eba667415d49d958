"""Why each gang waits: reason codes with their numbers, and a sentence for its owner."""
