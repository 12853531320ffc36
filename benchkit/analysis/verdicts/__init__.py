"""Whether a trial's figures can be believed: checks over what is stored, a file each, and what they come to."""
