"""Criteria, budgets and the ask/tell evaluator."""
