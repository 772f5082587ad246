package delta

// What the oracle is held against.
var (
	Normalised = normalised
	Prune      = prune
	NameClaims = nameClaims
)
