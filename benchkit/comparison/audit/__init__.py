"""Other people's results, examined with the checks that such data allow."""
