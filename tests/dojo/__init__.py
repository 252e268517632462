"""The acceptance test against prompt injections: AgentDojo's suites, run through Elwood's gate."""
