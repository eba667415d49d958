"""What says which GPUs this node has and how they do: NVML, or simulated GPUs."""
