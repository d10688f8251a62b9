"""The trusted process that decides: inputs, oracle, comparison, clock, gates. Imports torch."""
