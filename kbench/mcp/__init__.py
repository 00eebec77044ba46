"""`kbench mcp`: tools for agents that write kernels, over the Model Context Protocol."""
