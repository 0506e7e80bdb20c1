package sched

// ClassStats is the state of one policy class at one moment.
type ClassStats struct {
	Name string
	// Pending is the number of requests that wait.
	Pending int64
	// Tokens and Cached are the sums of their input and cached tokens.
	Tokens, Cached int64
	// Deficit is the class's deficit counter, in tokens.
	Deficit int64
}

// Stats is a summary of the scheduler at one moment. Counters start at 0 with
// the scheduler and only grow.
type Stats struct {
	// Classes are in the order of the profile.
	Classes []ClassStats
	// Waiting is the number of requests that wait, in all classes.
	Waiting int64
	// Live is the number of live bookings.
	Live int64

	// Admitted counts bookings made; Queries counts queries answered.
	Admitted, Queries int64
	// Rejected counts requests that ended with an error, by the text of the
	// sentinel error, for example "queue-full".
	Rejected map[string]int64
	// Expired counts bookings that ran into their ttl, Leaked those reclaimed
	// after their handle was lost, Dropped those whose worker was removed.
	Expired, Leaked, Dropped int64
	// HintOverflows counts full rechecks forced by a full hint ring, Epochs the
	// epochs run, Retries the selections made again because a race was lost.
	HintOverflows, Epochs, Retries int64
}
