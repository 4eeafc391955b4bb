"""The gRPC edge: translates and refuses, decides nothing."""
