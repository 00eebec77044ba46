"""One operator of the reference done otherwise, as it is by mistake: a table for each kind of operator."""
