"""Speed as ratios against the tools people use today, measured in one run on one core."""
