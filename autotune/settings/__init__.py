"""Values for the settings that engines have today, from what was measured and the transfers that an engine makes."""
