package gate

// Attested is what authorities say about one image in statements of one predicate type.
type Attested struct {
	// Accepted are about the image, and signed by an authority.
	Accepted []Statement
	// Elsewhere are signed by an authority, and about other images.
	Elsewhere []Statement
	// Strangers are about the image, and signed by no authority that could be asked.
	Strangers []Statement
	// Reasons why statements were not accepted, some of them.
	Reasons []string
	// Unusable says which authorities could not be asked, and why.
	Unusable []string
	// Unread says of what may be such a statement why it was not read.
	Unread []string
	// Late says that time ran out before all were looked at.
	Late bool
}

// Statement is one in-toto statement.
type Statement struct {
	// Payload is its JSON, each name in it given once.
	Payload []byte
	// By are the authorities that signed it, and Identities those of their certificates.
	By, Identities []string
	// Lacks says what authorities were accepted without.
	Lacks []string
}
