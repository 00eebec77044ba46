"""The only loop over units: plan, build ahead, judge on lanes, keep a journal. Verbs that judge are thin over it."""
