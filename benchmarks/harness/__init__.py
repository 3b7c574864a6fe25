"""What the benchmarks are made of: contenders, rounds, what the kernel says about processes, reports."""
