"""Solutions shipped with kbench, one folder per problem."""
