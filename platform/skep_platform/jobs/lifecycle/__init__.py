"""The life of a job: facts from nodes, verdicts, diagnoses, retries, deadlines and ends."""
