package names

tiers := {"gold", "silver"}
