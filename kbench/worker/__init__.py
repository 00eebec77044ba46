"""The untrusted child: the only room that imports a solution."""
