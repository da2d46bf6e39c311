"""What a profile costs on a machine: hours, memory, disk and FLOPs of every stage, from the rates of `rates.yaml`."""
