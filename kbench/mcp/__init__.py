"""`kbench mcp`: what an agent that writes kernels may ask, by the Model Context Protocol."""
