"""The outputs of loadtest (npm)."""
