package policy

// Bound is what one limit comes to in a pool.
type Bound struct {
	// Limit is LimitRequests, LimitRawTokens or LimitCachedTokens.
	Limit string
	// Bound is the limit per worker times the number of workers, saturating.
	Bound int64
}

// Bounds returns what the limits of the class come to in a pool of that many
// workers, in the order in which they are tested; limits that are not set are left
// out.
func (c *Class) Bounds(workers int64) []Bound {
	var bounds []Bound
	for _, l := range [...]struct {
		name      string
		perWorker *int64
	}{
		{LimitRequests, c.Limits.Requests},
		{LimitRawTokens, c.Limits.RawTokens},
		{LimitCachedTokens, c.Limits.CachedTokens},
	} {
		if l.perWorker != nil {
			bounds = append(bounds, Bound{l.name, saturatingMul(*l.perWorker, workers)})
		}
	}
	return bounds
}
