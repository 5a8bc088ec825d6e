"""Seeds S0 and S2, studies A and B."""
