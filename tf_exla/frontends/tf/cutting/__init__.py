"""Programs that are cut where a size appears during the call."""
