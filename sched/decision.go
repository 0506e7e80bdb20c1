package sched

// DecisionKind says what was decided.
type DecisionKind uint8

// The kinds of decisions.
const (
	// DecisionAdmitted: the request was booked, or answered if it was a query.
	DecisionAdmitted DecisionKind = iota + 1
	// DecisionQueued: the arrival remains waiting.
	DecisionQueued
	// DecisionRejected: the request ended with an error.
	DecisionRejected
	// DecisionExpired: a booking ended because it was not touched for its ttl.
	DecisionExpired
)

// String returns the kind in lower case.
func (k DecisionKind) String() string {
	switch k {
	case DecisionAdmitted:
		return "admitted"
	case DecisionQueued:
		return "queued"
	case DecisionRejected:
		return "rejected"
	case DecisionExpired:
		return "expired"
	default:
		return "unknown"
	}
}

// Decision is what a decision hook receives, in decision order.
type Decision struct {
	Kind    DecisionKind
	Request string
	// Query is set for a query, which is answered and not booked.
	Query bool
	// Placement is set when Kind is DecisionAdmitted.
	Placement Placement
	// Err is set when Kind is DecisionRejected; its type is *Error.
	Err error
}
