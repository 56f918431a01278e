"""What every request and answer passes: headers, compression, errors, visitors."""
