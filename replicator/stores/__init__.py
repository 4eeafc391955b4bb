"""Where content lies: one small set of calls over a directory or an object store."""
