"""Who used how much GPU time: counted from leases, reported, and limited by budgets."""
