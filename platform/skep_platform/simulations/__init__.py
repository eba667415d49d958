"""What-if questions: history as a trace, and simulations of it in the background."""
