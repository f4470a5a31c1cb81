"""Proposal, importance sampler, predictive draws, decision and diagnostics."""
