"""Why a job failed: facts of the platform first, then rules on what its tasks wrote."""
