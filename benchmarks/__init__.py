"""How fast holdfast is, as ratios measured in one run, and how it survives being killed."""
