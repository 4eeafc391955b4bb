"""What time and bad news call for: (view, now) in, commands out."""
