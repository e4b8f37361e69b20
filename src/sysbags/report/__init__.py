"""Pages that show what an evaluation found: report, demonstration, timeline."""
