"""Generated from proto/broker/v1 by proto/generate.py."""
