"""The record: studies and plans, runs, their log, series and journal."""
