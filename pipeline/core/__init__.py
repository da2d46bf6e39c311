"""Contracts that every stage depends on: records, params, shards, errors, runtime."""
