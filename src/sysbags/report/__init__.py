"""What an evaluation found, and the pages that show it: report, class atlas, demonstration."""
