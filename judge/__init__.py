"""From a submitted file to a verdict: intake, queue, worker, the judging story."""
