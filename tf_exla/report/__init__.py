"""What users read about a plan."""
