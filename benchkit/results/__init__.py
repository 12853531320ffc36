"""What is stored: the journal, raw files, and Parquet tables rebuilt from them."""
