"""What a run will do on these hosts. Planning reads facts and changes nothing; the run carries out what was planned."""
